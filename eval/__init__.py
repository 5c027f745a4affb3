"""Judged queries to numbers. Calls the service's own read path and never copies it."""
