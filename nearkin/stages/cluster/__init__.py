"""Clustering of scored pairs, and the policies that decide which document is kept."""
