"""Partitions of a graph as programs, and their calls."""
