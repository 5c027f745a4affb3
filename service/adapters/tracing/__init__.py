"""How long steps take: histograms in memory, and spans for OpenTelemetry where an endpoint is set."""
