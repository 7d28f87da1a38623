"""Texts in groups of near-duplicates."""


def text(i: int) -> str:
    """Returns a text. Four consecutive numbers have texts that differ in three words at most."""
    return " ".join(f"w{(i // 4) * 1000 + j}" for j in range(60 + i % 4))
