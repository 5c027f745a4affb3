"""citewell's microservice: passages that can be cited, and never a stale one."""
