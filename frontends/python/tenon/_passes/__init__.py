"""Passes in Python: the graph that a pass sees, and how long it may take."""
