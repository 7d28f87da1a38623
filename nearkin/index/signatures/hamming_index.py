"""An index of signatures by Hamming distance, in arrays. It is exact, and can be saved.

The search uses the block scheme (Manku, Jain, Das Sarma, WWW 2007, section 3). See
`nearkin.stages.lsh.sign_bands.block_bits`.
"""

import zipfile
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from threading import RLock
from typing import NamedTuple, Self

import numpy as np

from nearkin.errors import UsageError, WireError
from nearkin.index.signatures.chain_table import ChainTable, enlarge
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.files import replacing_durably, require_file_path
from nearkin.stages.lsh.band_keys import write_band_keys
from nearkin.stages.lsh.sign_bands import as_words, block_banding

FORMAT = 1
"""The version of the format of saved indexes."""
MAX_BITS = 1 << 16
"""The largest number of bits of a signature."""
LEAST_ROWS = 1024
"""The number of rows that a new index has space for."""
QUERIES = 8192
"""The number of queries whose candidates are in memory at a time."""
MAX_POSTINGS = 2**32 - 1
"""The largest number of postings. Chains consist of 32-bit numbers."""
ID_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""An odd number that spreads ids over the places of a table (multiplicative hashing)."""


class Neighbour(NamedTuple):
    """A stored signature within the distance of a query."""

    id: int
    distance: int


class HammingIndex:
    """An index of signatures that returns exactly those within a Hamming distance of a query.

    Signatures and tables are arrays. An index is safe for threads: each call waits until the
    previous one has ended.

    Args:
        bits: Number of bits f of a signature, a multiple of 64.
        distance: Maximum Hamming distance d, less than f / 2.
        blocks: Number of blocks, more than d. More blocks make more tables of smaller buckets.
        expected: Expected number of signatures. It decides the number of blocks by default.

    Raises:
        UsageError: If an argument is out of range.

    Examples:
        >>> index = HammingIndex(64, 3)
        >>> index.add(7, 0b1011), index.add(8, 0b0100)
        (None, None)
        >>> index.query(0b1010)
        [Neighbour(id=7, distance=1), Neighbour(id=8, distance=3)]
        >>> index.remove(7)
        >>> index.query(0b1010), len(index)
        ([Neighbour(id=8, distance=3)], 1)
    """

    @check_arguments
    def __init__(
        self, bits: int, distance: int, blocks: int | None = None, expected: int = 1_000_000
    ) -> None:
        if bits % 64 or not 64 <= bits <= MAX_BITS:
            raise UsageError(f"bits={bits} is not a multiple of 64 from 64 to {MAX_BITS:,}")
        banding = block_banding(bits, distance, expected, blocks)
        self.bits = bits
        self.distance = distance
        self.blocks = banding.blocks
        """The number of blocks of a signature."""
        self._layout = banding.band_layout
        self._lock = RLock()
        self._clear()

    def _clear(self) -> None:
        """Makes the arrays of an empty index."""
        self._size = 0
        self._count = 0
        self._ids = np.empty(LEAST_ROWS, np.int64)
        self._words = np.empty((LEAST_ROWS, self.bits // 64), np.uint64)
        self._alive = np.zeros(LEAST_ROWS, bool)
        self._bands = ChainTable(len(self._layout.masks_or_keys), LEAST_ROWS, heads_per_posting=1)
        self._rows_by_id = ChainTable(1, LEAST_ROWS, heads_per_posting=1)

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return (
            f"<HammingIndex: {len(self):,} signatures of {self.bits} bits, distance "
            f"{self.distance}, {len(self._layout.masks_or_keys)} tables>"
        )

    @property
    def nbytes(self) -> int:
        """The memory of the arrays, in bytes."""
        with self._lock:
            tables = self._bands.nbytes + self._rows_by_id.nbytes
            return tables + self._ids.nbytes + self._words.nbytes + self._alive.nbytes

    def add(self, id: int, signature: int) -> None:
        """Stores a signature under an id, and replaces a signature that the id had before.

        `add_many` is faster for many.

        Args:
            id: Id that the caller chooses, an integer of 64 bits with sign.
            signature: Signature as an integer of `bits` bits.

        Raises:
            UsageError: If the signature or the id has more bits.
        """
        self.add_many([id], self._words_of(signature))

    @check_arguments
    def add_many(self, ids: Sequence[int] | np.ndarray, signatures: np.ndarray) -> None:
        """Stores signatures, and replaces those that the ids had before.

        Args:
            ids: Ids that the caller chooses, integers of 64 bits with sign, each once.
            signatures: Signatures, uint64 (n,) or (n, bits / 64).

        Raises:
            UsageError: If there are not as many ids as signatures, an id is repeated or too large,
                or the signatures have another number of bits.
        """
        words = self._require_width(signatures)
        numbers = _as_ids(ids)
        if len(numbers) != len(words):
            raise UsageError(
                f"there are {len(numbers)} ids and {len(words)} signatures; give as many ids as "
                "signatures"
            )
        if len(np.unique(numbers)) < len(numbers):
            raise UsageError("an id is given more than once; give each signature an id of its own")
        with self._lock:
            end = self._size + len(numbers)
            self._reserve(end)
            _, replaced = self._rows_by_id.find(_id_keys(numbers), self._alive[: self._size])
            self._alive[replaced] = False
            self._count += len(numbers) - len(replaced)
            self._ids[self._size : end] = numbers
            self._words[self._size : end] = words
            self._alive[self._size : end] = True
            self._size = end
            self._bands.append(self._band_keys(words), self._alive[:end])
            self._rows_by_id.append(_id_keys(numbers), self._alive[:end])
            self._drop_removed_rows()

    @check_arguments
    def remove(self, id: int) -> None:
        """Deletes the signature of an id.

        Args:
            id: Id of the signature.

        Raises:
            UsageError: If no signature is stored under the id.
        """
        with self._lock:
            _, rows = self._rows_by_id.find(_id_keys(_as_ids([id])), self._alive[: self._size])
            if not len(rows):
                raise UsageError(f"no signature is stored under the id {id}")
            self._alive[rows] = False
            self._count -= 1
            self._drop_removed_rows()

    def query(self, signature: int) -> list[Neighbour]:
        """Returns all stored signatures within the distance, ordered by distance, then by id.

        Args:
            signature: Signature of the query, an integer of f bits.

        Raises:
            UsageError: If the signature has more than `bits` bits.
        """
        return self.query_many(self._words_of(signature))[0]

    @check_arguments
    def query_many(self, signatures: np.ndarray) -> list[list[Neighbour]]:
        """Returns what `query` returns, for several signatures.

        Args:
            signatures: Signatures, uint64 (n,) or (n, bits / 64).

        Raises:
            UsageError: If the signatures have another number of bits.
        """
        words = self._require_width(signatures)
        neighbours: list[list[Neighbour]] = []
        for start in range(0, len(words), QUERIES):
            neighbours += self._search(words[start : start + QUERIES])
        return neighbours

    def _search(self, words: np.ndarray) -> list[list[Neighbour]]:
        """Returns the neighbours of a portion of signatures, uint64 (q, w)."""
        keys = self._band_keys(words)
        with self._lock:
            starts, rows = self._bands.find(keys, self._alive[: self._size])
            queries = np.repeat(np.arange(len(words)), np.diff(starts))
            differing = self._words[rows] ^ words[queries]
            ids = self._ids[rows]
        distances = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
        near = distances <= self.distance
        queries = queries[near]
        distances = distances[near]
        ids = ids[near]
        order = np.lexsort((ids, distances, queries))
        bounds = np.searchsorted(queries[order], np.arange(len(words) + 1)).tolist()
        pairs = zip(ids[order].tolist(), distances[order].tolist(), strict=True)
        ordered = [Neighbour(id, distance) for id, distance in pairs]
        return [ordered[bounds[i] : bounds[i + 1]] for i in range(len(words))]

    @check_arguments
    def save(self, path: str | Path) -> None:
        """Writes the index to a file, which `load` reads. The file survives a crash of the machine.

        Args:
            path: File, which is replaced when the new one is complete.

        Raises:
            UsageError: If the path is a folder, or in a folder that does not exist.
        """
        require_file_path(Path(path))
        with self._lock:
            rows = np.flatnonzero(self._alive[: self._size])
            ids = self._ids[rows]
            words = self._words[rows]
        with replacing_durably(Path(path)) as file:
            np.savez(
                file,
                format=np.int64(FORMAT),
                bits=np.int64(self.bits),
                distance=np.int64(self.distance),
                blocks=np.int64(self.blocks),
                ids=ids.astype("<i8"),
                signatures=words.astype("<u8"),
            )

    @classmethod
    @check_arguments
    def load(cls, path: str | Path) -> Self:
        """Returns the index of a file that `save` wrote.

        Args:
            path: File.

        Raises:
            UsageError: If the file does not exist or cannot be read.
            WireError: If the file is damaged, or is not an index of this version.
        """
        try:
            with np.load(Path(path), allow_pickle=False) as saved:
                version, bits, distance, blocks = (
                    int(saved[name]) for name in ("format", "bits", "distance", "blocks")
                )
                ids = saved["ids"]
                signatures = saved["signatures"]
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error}") from error
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise WireError(
                f"{path} is damaged, or not an index that HammingIndex.save wrote: {error}"
            ) from error
        if version != FORMAT:
            raise WireError(
                f"{path} has format {version} of a Hamming index; this version of nearkin reads "
                f"{FORMAT}"
            )
        index = cls(bits, distance, blocks)
        index.add_many(ids, signatures.astype(np.uint64, copy=False))
        return index

    def __getstate__(self) -> dict[str, object]:
        """Returns the attributes without the lock."""
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()

    def _band_keys(self, words: np.ndarray) -> np.ndarray:
        """Returns the band keys of signatures, uint64 (n, b)."""
        keys = np.empty((len(self._layout.masks_or_keys), len(words)), np.uint64)
        write_band_keys(self._layout, words, np.zeros(len(words), np.uint64), keys)
        return np.ascontiguousarray(keys.T)

    def _reserve(self, size: int) -> None:
        """Makes the arrays large enough for so many rows. They grow by a half."""
        if size * len(self._layout.masks_or_keys) > MAX_POSTINGS:
            raise UsageError(
                f"{size:,} signatures of {len(self._layout.masks_or_keys)} tables are too many "
                f"for one index ({MAX_POSTINGS:,} postings); divide them"
            )
        capacity = len(self._alive)
        if size <= capacity:
            return
        capacity = max(size, capacity + capacity // 2)
        self._ids = enlarge(self._ids, capacity)
        self._words = enlarge(self._words, capacity)
        self._alive = enlarge(self._alive, capacity)
        self._bands.reserve(capacity)
        self._rows_by_id.reserve(capacity)

    def _drop_removed_rows(self) -> None:
        """Makes new arrays if most of their rows were removed or replaced."""
        removed = self._size - self._count
        if removed <= max(LEAST_ROWS, self._count):
            return
        rows = np.flatnonzero(self._alive[: self._size])
        ids = self._ids[rows]
        words = self._words[rows]
        self._clear()
        self.add_many(ids, words)

    def _words_of(self, signature: int) -> np.ndarray:
        """Returns a signature as an array, uint64 (1, w)."""
        is_whole = isinstance(signature, Integral) and not isinstance(signature, bool)
        if not is_whole or not 0 <= signature < 1 << self.bits:
            raise UsageError(f"{signature!r:.60} is not a signature of {self.bits} bits")
        signature_bytes = int(signature).to_bytes(self.bits // 8, "little")
        return np.frombuffer(signature_bytes, "<u8").astype(np.uint64).reshape(1, -1)

    def _require_width(self, signatures: np.ndarray) -> np.ndarray:
        words = as_words(signatures)
        if len(words) and words.shape[1] * 64 != self.bits:
            raise UsageError(
                f"the signatures have {words.shape[1] * 64} bits, and those of this index have "
                f"{self.bits}"
            )
        return words.reshape(len(words), self.bits // 64)


def _as_ids(ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns ids as an array, int64 (n,)."""
    if not len(ids):
        return np.empty(0, np.int64)
    numbers = np.asarray(ids)
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or numbers.max() >= 2**63:
        raise UsageError(
            f"ids must be a list of integers of 64 bits with sign, not {numbers.dtype} "
            f"{numbers.shape}, for example {ids[0]!r}"
        )
    return numbers.astype(np.int64)


def _id_keys(ids: np.ndarray) -> np.ndarray:
    """Returns the keys of ids in their table, uint64 (n, 1). Different ids have different keys."""
    return (ids.view(np.uint64) * ID_MULTIPLIER).reshape(-1, 1)
