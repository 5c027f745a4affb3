"""Tests of the vector index: one contract over three stores, and each store's own troubles."""
