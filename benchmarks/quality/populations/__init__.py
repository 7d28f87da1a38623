"""Generated populations of any size, whose duplicates are known."""
