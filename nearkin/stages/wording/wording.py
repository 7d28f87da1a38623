"""The wordings of batches of documents, as hashes and as tokens."""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.runtime.threads import ARRAY_HEADERS
from nearkin.settings.spec import UNICODE_VERSION
from nearkin.stages.shingle import text_buffers
from nearkin.stages.shingle.normalization.kernels import CodePointTables
from nearkin.stages.shingle.unicode_tables import tables_for
from nearkin.stages.wording import kernels

DOCUMENTS_AT_ONCE = 256
"""The number of documents whose tokens are in memory while they are hashed."""


class WordingHashes(NamedTuple):
    """Hashes of 128 bits of what documents say, which are equal if it is."""

    numbers: np.ndarray
    """The hash of the numbers of each document, in order, uint64 (n, 2)."""
    wordings: np.ndarray
    """The hash of the words, numbers and symbols of each document, in order, uint64 (n, 2)."""


def hash_wordings(documents: pa.Array) -> WordingHashes:
    """Returns hashes of the wordings of documents.

    Examples:
        >>> texts = pa.array(["Pay 1,000 €.", "pay 1,000 €", "pay €1,000", "Pay 1000 €."])
        >>> hashes = hash_wordings(texts.cast(pa.large_string()))
        >>> (hashes.wordings[0] == hashes.wordings[1:]).all(axis=1).tolist()
        [True, False, False]
        >>> (hashes.numbers[0] == hashes.numbers[1:]).all(axis=1).tolist()
        [True, True, False]
    """
    numbers = np.empty((len(documents), 2), np.uint64)
    wordings = np.empty((len(documents), 2), np.uint64)
    for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
        rows = slice(start, start + DOCUMENTS_AT_ONCE)
        tokens, counts = read_wordings(documents[rows])
        starts = np.concatenate([[0], np.cumsum(counts)])
        kernels.hash_documents(tokens, starts, numbers[rows], wordings[rows])
    return WordingHashes(numbers, wordings)


def read_wordings(documents: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns the tokens of the wordings of documents, which `find_said` compares, uint64.

    Each document has its number of tokens, int64 (n,).

    Examples:
        >>> tokens, counts = read_wordings(pa.array(["At -5 °C.", "?!"], pa.large_string()))
        >>> len(tokens), counts.tolist()
        (4, [4, 0])
    """
    data, offsets, lists = _buffers_of(documents)
    size = int(offsets[lists[-1]] - offsets[lists[0]])
    tokens = np.empty(size, np.uint64)
    starts = np.empty(len(documents) + 1, np.int64)
    kernels.read_wordings(data, offsets, lists, _kinds(), _normalization(), tokens, starts)
    return tokens[: starts[-1]].copy(), np.diff(starts)


def _buffers_of(documents: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the bytes of texts, the offsets of texts, and the first text of each document."""
    if not pa.types.is_large_list(documents.type):
        data, offsets = text_buffers(documents)
        return data, offsets, np.arange(len(documents) + 1, dtype=np.int64)
    data, offsets = text_buffers(documents.flatten())
    lists = np.asarray(documents.offsets)
    return data, offsets, lists - lists[0]


@cache
def _kinds() -> np.ndarray:
    """Returns the kind of each code point, uint8."""
    name = f"characters-{UNICODE_VERSION}.npz"
    path = files(__package__).joinpath(name)
    with path.open("rb") as file, ARRAY_HEADERS, np.load(file) as arrays:
        return np.ascontiguousarray(arrays["kinds"])


def _normalization() -> CodePointTables:
    """Returns the tables with which words are normalized."""
    return tables_for(("nfkc", "lower"))
