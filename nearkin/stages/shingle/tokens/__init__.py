"""Tokens of normalized text."""
