"""Faults, each caused for real: damaged files, full disks, dead databases, killed processes."""
