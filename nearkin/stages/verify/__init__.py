"""Exact comparison of documents: shingle sets, weighted shingles and vectors."""
