"""The passages of texts, found by comparing every window with every other one."""

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

TOKENS = {"words": re.compile(r"\S+"), "chars": re.compile(r"\w")}


def locate_tokens(text: str, unit: str = "words") -> list[tuple[int, int]]:
    """Returns the first byte, and the byte after the last one, of each token of a text.

    Args:
        text: Words of letters and digits between spaces.
        unit: `words`, or `chars` for the letters and digits of words.
    """
    return [
        (len(text[: match.start()].encode()), len(text[: match.end()].encode()))
        for match in TOKENS[unit].finditer(text)
    ]


def find_repeated_windows(texts: Sequence[str], least: int, unit: str = "words") -> list[set[int]]:
    """Returns the positions of the first tokens of the repeated windows of each text.

    Args:
        texts: Texts of words between spaces.
        least: Number of tokens of a window.
        unit: `words` or `chars`.
    """
    places = defaultdict(list)
    words = [TOKENS[unit].findall(text.lower()) for text in texts]
    for document, document_words in enumerate(words):
        for start in range(len(document_words) - least + 1):
            places[tuple(document_words[start : start + least])].append((document, start))
    repeated: list[set[int]] = [set() for _ in texts]
    for found in places.values():
        if len(found) > 1:
            for document, start in found:
                repeated[document].add(start)
    return repeated


def find_repeated_tokens(texts: Sequence[str], least: int, unit: str = "words") -> list[set[int]]:
    """Returns the positions of the tokens of each text that are in a repeated window.

    Args:
        texts: Texts of words between spaces.
        least: Number of tokens of a window.
        unit: `words` or `chars`.
    """
    return [
        {token for start in starts for token in range(start, start + least)}
        for starts in find_repeated_windows(texts, least, unit)
    ]


def require_exact(
    texts: Sequence[str], least: int, passages: pa.Table, unit: str = "words"
) -> None:
    """Checks a table of passages: each one is shared and maximal, and together they are complete.

    Args:
        texts: Texts of words between spaces.
        least: Smallest number of tokens of a passage.
        passages: Table with the schema PASSAGES.
        unit: `words` or `chars`.
    """
    words = [TOKENS[unit].findall(text.lower()) for text in texts]
    bounds = [locate_tokens(text, unit) for text in texts]
    covered: list[set[int]] = [set() for _ in texts]
    for row in passages.to_pylist():
        document, other = row["document"], row["repeats_document"]
        first, end = _word_range(bounds[document], row["start"], row["end"])
        other_first, other_end = _word_range(
            bounds[other], row["repeats_start"], row["repeats_end"]
        )
        assert (document, first) != (other, other_first)
        assert end - first == row["tokens"] >= least
        assert words[document][first:end] == words[other][other_first:other_end]
        if first > 0 and other_first > 0:
            assert words[document][first - 1] != words[other][other_first - 1]
        if end < len(words[document]) and other_end < len(words[other]):
            assert words[document][end] != words[other][other_end]
        covered[document].update(range(first, end))
    assert covered == find_repeated_tokens(texts, least, unit)


def _word_range(bounds: list[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    starts = [first for first, _ in bounds]
    ends = [last for _, last in bounds]
    return starts.index(start), ends.index(end) + 1


def generate_texts(rng: np.random.Generator) -> list[str]:
    """Returns a few texts with planted passages, over a small or a large vocabulary."""
    size = int(rng.choice([1, 2, 3, 50, 1000]))
    vocabulary = np.array([f"w{number}" for number in range(size)])
    planted = np.array([f"p{number}" for number in rng.integers(0, 60, 60)])
    texts = []
    for _ in range(int(rng.integers(0, 8))):
        parts = [rng.choice(vocabulary, int(rng.integers(0, 60)))]
        for _ in range(int(rng.integers(0, 4))):
            first = int(rng.integers(0, 50))
            parts.append(planted[first : first + int(rng.integers(0, 25))])
            parts.append(rng.choice(vocabulary, int(rng.integers(0, 20))))
        texts.append(" ".join(np.concatenate(parts)))
    return texts
