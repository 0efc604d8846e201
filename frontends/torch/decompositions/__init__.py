"""What torch takes apart before a graph is lowered."""
