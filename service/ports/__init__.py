"""What the use cases need from the outside, in domain words. One small protocol per consumer."""
