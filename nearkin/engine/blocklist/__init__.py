"""Blocklists: sketches of documents that are not wanted, without their texts."""
