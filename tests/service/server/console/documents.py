"""Texts that differ in some words."""

WORDS = [f"word{i}" for i in range(60)]


def variant(*changed: int) -> str:
    """Returns a text that differs from the first one in some words."""
    return " ".join(f"other{at}" if at in changed else word for at, word in enumerate(WORDS))
