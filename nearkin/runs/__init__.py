"""Runs over files: from inputs to a complete output folder or file, resumable until then."""
