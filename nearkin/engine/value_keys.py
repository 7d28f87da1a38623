"""Keys of the values by which documents are duplicates at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.canonical_dois import canonicalize_dois
from nearkin.engine.canonical_urls import canonicalize_urls
from nearkin.engine.options import RunOptions
from nearkin.stages.hashing import kernels as hashing
from nearkin.stages.hashing.families import key_of
from nearkin.stages.shingle import text_buffers

KEY_SEEDS = (0x6E656172, 0x6B696E73)
"""The seeds of the two words of a key."""


@dataclass(frozen=True)
class ValueColumn:
    """A column whose equal values make documents duplicates.

    Attributes:
        name: The name of the column in the inputs.
        holds_urls: Whether its values are URLs, which are compared in their canonical form.
    """

    name: str
    holds_urls: bool = False

    def build_keys(self, values: pa.Array) -> np.ndarray:
        """Returns a key of 128 bits for each value, uint64 (n, 2).

        Equal values have equal keys, and so have the forms of one DOI. A null and a blank value
        have the key (0, 0), which never matches.

        Args:
            values: Values of the column, (n,). Values of other types are compared as text.

        Examples:
            >>> keys = ValueColumn("isbn").build_keys(pa.array(["x", "y", "x", " ", None]))
            >>> (keys[0] == keys[2]).all(), (keys[0] == keys[1]).any(), keys[3:].tolist()
            (np.True_, np.False_, [[0, 0], [0, 0]])
        """
        texts = values.cast(pa.large_string())
        if self.holds_urls:
            texts = canonicalize_urls(texts)
        texts = canonicalize_dois(texts).fill_null("")
        data, offsets = text_buffers(texts)
        keys = np.zeros((len(texts), 2), np.uint64)
        for word, seed in enumerate(KEY_SEEDS):
            hashes = np.empty(len(texts), np.uint64)
            hashing.hash_each(data, offsets, key_of("xxh3", seed), hashes)
            keys[:, word] = hashes
        is_blank = pc.equal(pc.utf8_trim_whitespace(texts), "")
        keys[is_blank.to_numpy(zero_copy_only=False)] = 0
        return keys


def value_columns_of(options: RunOptions) -> tuple[ValueColumn, ...]:
    """Returns the columns whose equal values make documents of a run duplicates.

    Examples:
        >>> [column.name for column in value_columns_of(RunOptions(same="isbn, doi"))]
        ['isbn', 'doi']
    """
    return tuple(_list_value_columns(options))


def _list_value_columns(options: RunOptions) -> Iterator[ValueColumn]:
    for name in options.same_columns:
        yield ValueColumn(name)
    if options.url is not None:
        yield ValueColumn(options.url, holds_urls=True)
