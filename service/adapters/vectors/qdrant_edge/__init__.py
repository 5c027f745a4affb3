"""Qdrant Edge behind a process boundary.

Every call into Edge holds the interpreter lock and building its HNSW freezes the whole process, so each
collection's shard lives in a process of its own (`serve_shard`), HNSW graphs are built in yet another
(`build_graph`), and this side only supervises and multiplexes.
"""
