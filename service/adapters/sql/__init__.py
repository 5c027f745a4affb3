"""The authoritative rows in SQLite or PostgreSQL, by one code."""
