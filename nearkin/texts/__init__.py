"""Shared runs of words: passages, lines, and the items of benchmark suites."""
