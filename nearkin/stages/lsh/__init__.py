"""Locality-sensitive hashing: from signatures to band keys, buckets and candidate pairs."""
