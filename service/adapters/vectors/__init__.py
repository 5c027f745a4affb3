"""Vector indexes: exact in memory, Qdrant Edge in child processes, and a Qdrant server."""
