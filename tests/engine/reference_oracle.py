"""The result of a deduplication against a reference, by comparing all pairs one after the other."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa


class Row(NamedTuple):
    """A row of the clusters table."""

    id: str
    kept: bool
    duplicate_of: str | None
    matched_in: str | None
    similarity: float


def make_texts(seed: int, documents: int, words: int = 24, vocabulary: int = 60) -> list[str]:
    """Returns texts, of which many are copies or edited copies of others, and some are empty."""
    draw = random.Random(seed)
    names = [f"w{number}" for number in range(vocabulary)]
    texts: list[str] = []
    for number in range(documents):
        source = draw.choice(texts) if texts and number % 2 else ""
        tokens = source.split() or [draw.choice(names) for _ in range(words)]
        for _ in range(draw.randrange(3)):
            tokens[draw.randrange(len(tokens))] = draw.choice(names)
        texts.append("" if number % 29 == 7 else " ".join(tokens))
    return texts


def share_texts(seed: int, texts: Sequence[str], documents: int) -> list[str]:
    """Returns further texts of which a third are copies or edited copies of the given ones."""
    draw = random.Random(seed)
    own = make_texts(seed + 1000, documents)
    for number in range(0, documents, 3):
        tokens = draw.choice(texts).split()
        if tokens and number % 2:
            tokens[draw.randrange(len(tokens))] = "edited"
        own[number] = " ".join(tokens)
    return own


def shingles_of(text: str) -> frozenset[tuple[str, ...]]:
    """Returns the shingles of three words. A shorter text is one shingle."""
    tokens = tuple(text.lower().split())
    if not tokens:
        return frozenset()
    return frozenset(tokens[i : i + 3] for i in range(max(1, len(tokens) - 2)))


def similarity_of(a: str, b: str) -> float:
    """Returns the Jaccard similarity of the shingles of two texts."""
    x = shingles_of(a)
    y = shingles_of(b)
    return len(x & y) / len(x | y) if x or y else 0.0


def dedup_by_oracle(
    new: pa.Table,
    reference: pa.Table,
    threshold: float,
    *,
    only: bool = False,
    block_by: str | None = None,
) -> list[Row]:
    """Returns the clusters table, in the order of the rows.

    Args:
        new: Documents with the columns id and text.
        reference: Documents that are never removed.
        threshold: Smallest similarity of duplicates.
        only: Whether the new documents are not compared with each other.
        block_by: Column whose value two documents must share.
    """
    rows: dict[int, Row] = {}
    documents = new.to_pylist()
    known = sorted(reference.to_pylist(), key=lambda row: row["id"].encode())
    leaders: list[int] = []
    order = sorted(
        range(len(documents)),
        key=lambda n: (-len(documents[n]["text"].encode()), documents[n]["id"].encode()),
    )
    for number in order:
        document = documents[number]
        matches = _matches(document, known, threshold, block_by)
        place = "reference"
        if not matches and not only:
            matches = _matches(document, [documents[n] for n in leaders], threshold, block_by)
            place = "this run"
        if matches:
            _, similarity, position = min(matches)
            best = (known if place == "reference" else [documents[n] for n in leaders])[position]
            rows[number] = Row(document["id"], False, best["id"], place, -similarity)
        else:
            leaders.append(number)
            rows[number] = Row(document["id"], True, None, None, 1.0)
    return [rows[number] for number in range(len(documents))]


def _matches(
    document: dict[str, str],
    others: Sequence[dict[str, str]],
    threshold: float,
    block_by: str | None,
) -> list[tuple[bool, float, int]]:
    """Returns a sort key of each match, of which the smallest is the best.

    It is whether the other document is not a copy, the negative similarity, and its position.
    """
    matches = []
    for position, other in enumerate(others):
        if block_by is not None and document[block_by] != other[block_by]:
            continue
        similarity = similarity_of(document["text"], other["text"])
        if similarity >= threshold:
            differs = document["text"].lower().split() != other["text"].lower().split()
            matches.append((differs, -similarity, position))
    return matches


def read_rows(clusters: pa.Table) -> list[Row]:
    """Returns the rows of a clusters table, without what the oracle does not know."""
    names = list(Row._fields)
    return [Row(**row) for row in clusters.select(names).to_pylist()]
