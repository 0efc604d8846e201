"""A graph of torch as a graph of ours: the walk, the table of lowerings, sizes."""
