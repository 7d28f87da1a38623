"""The stores of an index."""
