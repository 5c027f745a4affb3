"""Write use cases: capture, lifecycle, vocabulary, facet tags, link liveness."""
