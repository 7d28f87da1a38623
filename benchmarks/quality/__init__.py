"""A benchmark of the quality of clusters over labelled sets.

The sets are made, or found on the machine. `python -m benchmarks.quality` runs it.
"""
