"""The lexical arm on tantivy: an in-process inverted index that proposes, never decides."""
