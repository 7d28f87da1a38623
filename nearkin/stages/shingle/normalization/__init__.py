"""Normalization of text: NFKC, lower case and the removal of marks."""
