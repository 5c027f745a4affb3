"""File ingest: names, metadata, documents, lines, and what a crash leaves."""
