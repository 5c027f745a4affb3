"""Tests of the embeddings package."""
