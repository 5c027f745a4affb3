"""The command line, in this process through click's runner and as real processes."""
