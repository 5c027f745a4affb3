"""The HTTP surface, from outside."""
