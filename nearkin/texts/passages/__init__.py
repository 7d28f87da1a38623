"""Passages: runs of tokens that occur at two or more places of a corpus."""
