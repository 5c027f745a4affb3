"""The evaluation: what it reads, what it computes, and what it decides."""
