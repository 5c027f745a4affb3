"""Link checking, over real sockets."""
