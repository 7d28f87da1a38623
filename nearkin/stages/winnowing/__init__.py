"""Runs of tokens that texts share: their fingerprints by winnowing, and the runs themselves."""

LEAST_TOKENS = 2
"""The smallest number of tokens of a passage that can be asked for."""
MOST_TOKENS = 1 << 20
"""The largest number of tokens of a passage that can be asked for."""
TOKEN_NAMES = {"words": "word", "chars": "character"}
"""The names of one token, by the units of passages."""
