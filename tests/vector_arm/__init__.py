"""The vector arm in the read path, and the worker behind it."""
