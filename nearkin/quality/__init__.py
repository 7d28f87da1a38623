"""Judgements of results, and the choice of better settings."""
