"""A Qdrant server or cluster behind the port, over REST or gRPC."""
