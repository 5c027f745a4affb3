"""Load, limits and the way out."""
