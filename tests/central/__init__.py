"""The central proof: whatever happens, an answer is what the pure function says of the live corpus."""
