"""The answers of an index, found by comparing a document with all representatives."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from nearkin.index.search import MOST_RELATED


class Resolution(NamedTuple):
    """The effect of an upsert of a new document.

    Attributes:
        kind: `match`, `related` or `new`.
        leader: Id of the representative, which can be the document itself.
        similarity: Similarity to the representative.
        related: Ids and similarities of the other representatives that are related.
    """

    kind: str
    leader: str
    similarity: float
    related: list[tuple[str, float]]


def rank(
    text: str, leaders: Mapping[str, str], similarity: Callable[[str, str], float]
) -> list[tuple[str, float]]:
    """Returns representatives with their similarities to a text, the most similar ones first.

    Args:
        text: The text.
        leaders: Texts of the representatives by their ids, oldest first.
        similarity: Returns the similarity of two texts.
    """
    scored = [(leader, similarity(text, other)) for leader, other in leaders.items()]
    # of equal similarities the older representative comes first
    return sorted(scored, key=lambda pair: -pair[1])


def resolve(
    name: str,
    text: str,
    leaders: Mapping[str, str],
    similarity: Callable[[str, str], float],
    *,
    threshold: float,
    related: float | None,
) -> Resolution:
    """Returns what an upsert of a new document does.

    Args:
        name: Id of the document.
        text: Text of the document.
        leaders: Texts of the representatives by their ids, oldest first.
        similarity: Returns the similarity of two texts.
        threshold: Smallest similarity of near-duplicates.
        related: Smallest similarity of related representatives, or None.
    """
    scored = rank(text, leaders, similarity)
    is_match = bool(scored) and scored[0][1] >= threshold
    leader, reached = scored[0] if is_match else (name, 1.0)
    others = [
        pair for pair in scored if pair[0] != leader and related is not None and pair[1] >= related
    ]
    kind = "match" if is_match else "related" if others else "new"
    return Resolution(kind, leader, reached, others[:MOST_RELATED])
