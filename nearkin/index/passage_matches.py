"""The answers of an index about the passages that a text shares with stored documents."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class MatchedPassage:
    """A run of words that a text and a stored document share.

    It continues at neither end in both. Bytes count in UTF-8.

    Attributes:
        start: First byte in the text.
        end: Byte after the last one in the text.
        stored_start: First byte in the stored document.
        stored_end: Byte after the last one in the stored document.
        tokens: Number of words.
    """

    start: int
    end: int
    stored_start: int
    stored_end: int
    tokens: int


@dataclass(frozen=True)
class PassageMatch:
    """A stored document that shares passages with a text.

    Attributes:
        id: Id of the document.
        cluster: Id of its cluster.
        tokens: Number of words of the text that are in at least one passage.
        passages: The passages, in the order of the text. Of more than 100, they are the longest.
        found: Number of all passages.
    """

    id: str
    cluster: str
    tokens: int
    passages: tuple[MatchedPassage, ...]
    found: int


@dataclass(frozen=True)
class PassageMatches:
    """The stored documents that share passages with a text.

    Attributes:
        documents: The documents, those that share most words first, and the oldest of equal ones.
        candidates: Number of stored documents that share a fingerprint with the text.
        compared: Number of candidates that were compared with the text.
        complete: True if no document with a passage can be missing, except beyond `top`. False if
            a bound ended the search: candidates were left out, or documents have left a bucket that
            was full, even if there is room in it again. Also false if that is unknown, because a
            version that did not record it wrote the index.
    """

    documents: tuple[PassageMatch, ...]
    candidates: int
    compared: int
    complete: bool

    def to_dict(self) -> dict[str, object]:
        """Returns the result as values that JSON can hold."""
        return {**asdict(self), "documents": [asdict(document) for document in self.documents]}
