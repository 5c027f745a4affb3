"""What the service tells of itself: metrics, traces, log lines, health."""
