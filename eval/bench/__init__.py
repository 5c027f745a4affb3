"""Benchmarks that can be run again: figures as medians, with a baseline measured in the same run."""
