"""Read use cases: one short pipeline each."""
