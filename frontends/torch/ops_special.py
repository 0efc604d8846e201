"""Functions of numbers that need more than one formula."""
