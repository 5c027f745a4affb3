"""Surfaces translate requests into use cases, and answers into HTTP or terminal output."""
