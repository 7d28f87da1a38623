"""File formats: how rows are read from files, and how kept rows are written."""
