"""Signatures of documents: MinHash, SimHash, hyperplanes, counting sketches and their files."""
