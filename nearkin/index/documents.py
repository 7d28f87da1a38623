"""The forms in which an index accepts documents."""

import base64
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.runtime.argument_types import describe_as


class ShingledDocument(NamedTuple):
    """A document whose shingles are known, but not its text."""

    hashes: np.ndarray
    """The distinct shingle hashes in ascending order, uint64 (m,)."""
    signature: np.ndarray | None = None
    """The signature of whole MinHash slots, uint32 (k,), if it is known."""
    digest: bytes | None = None
    """The digest of the content that the shingles were made from, if it is known."""


@dataclass(frozen=True, eq=False)
class TextAndVector:
    """A document of an index of texts and vectors, which has a text, a vector, or both.

    Attributes:
        text: The text, or None.
        vector: The vector, a list of numbers or an array of the index's dimensions, or None.
    """

    text: str | None = None
    vector: "Sequence[float] | np.ndarray | None" = None


class CheckedPair(NamedTuple):
    """A verified document of an index of texts and vectors, which has at least one of the two."""

    text: str | ShingledDocument | None
    vector: np.ndarray | None
    """The vector, float32 (n,)."""
    digest: bytes | None = None
    """The digest of the content if it is known."""


Document: TypeAlias = (
    str | Sequence[float] | np.ndarray | ShingledDocument | TextAndVector | CheckedPair
)
"""A document that a caller may pass to an index."""
describe_as(
    Document,
    "a text, a vector (numbers), a ShingledDocument or a TextAndVector",
    "documents: texts, vectors, ShingledDocuments or TextAndVectors",
)
CheckedPart: TypeAlias = "str | np.ndarray | ShingledDocument"
"""A verified text or vector; a vector is float32 (n,)."""
CheckedDocument: TypeAlias = "CheckedPart | CheckedPair"
"""A document that was verified."""


def require_several(documents: object) -> None:
    """Requires that documents are a list of them, and not one text or a table.

    The characters of a text, the names of the columns of a table and the values of a set in any
    order would be taken as documents.
    """
    if type(documents) is list:
        return
    is_table = hasattr(documents, "columns") or hasattr(documents, "column_names")
    if is_table or isinstance(documents, str | bytes | Mapping | Set):
        raise UsageError(
            f"{type(documents).__name__} is not a list of documents; give a list of texts or of "
            "vectors"
        )


def default_ids(digests: Sequence[bytes]) -> list[str]:
    """Returns the ids of documents that have none of their own, from digests of their contents.

    Each id is the base64 form of a digest of 16 bytes, which has 22 characters.

    Examples:
        >>> default_ids([bytes(16), bytes([255] * 16)])
        ['AAAAAAAAAAAAAAAAAAAAAA', '_____________________w']
    """
    # with two more bytes, each digest has 24 characters of its own
    encoded = base64.urlsafe_b64encode(b"".join([digest + b"\0\0" for digest in digests])).decode()
    return [encoded[start : start + 22] for start in range(0, 24 * len(digests), 24)]


def documents_of(column: pa.Array) -> list[Any]:
    """Returns the texts or vectors of a column as an index takes them."""
    if pa.types.is_fixed_size_list(column.type):
        flat = np.asarray(column.flatten(), np.float32)
        return list(flat.reshape(len(column), column.type.list_size))
    if pa.types.is_large_list(column.type):
        raise UsageError(
            "an index stores texts and vectors, not lists of tokens; join the tokens to a text"
        )
    values: list[Any] = column.to_pylist()
    return values
