"""The library: runs from inputs to a complete output, resumable until then, and results."""
