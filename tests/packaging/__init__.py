"""Tests of what is shipped: the wheel, the container, the deployment notes."""
