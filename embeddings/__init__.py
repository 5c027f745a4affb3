"""Texts to unit vectors. Knows nothing of the service that uses it."""
