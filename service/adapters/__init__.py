"""Adapters translate between a library and a port, and decide nothing."""
