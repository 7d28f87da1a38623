"""The tokens of documents, in pieces of bounded size."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.stages.shingle.shingler import LocatedTokens, Shingler, text_buffers
from nearkin.stages.shingle.tokens.kernels import end_of_segments

PIECE_BYTES = 1 << 20
"""The number of bytes of text that are treated at a time, approximately."""


class TokenPiece(NamedTuple):
    """The tokens of some documents, or of a part of a long one."""

    hashes: np.ndarray
    """uint64 (total,): The hashes of the tokens."""
    starts: np.ndarray
    """uint32 (total,): The first byte of each token in its document."""
    ends: np.ndarray
    """uint32 (total,): The byte after the last one of each token in its document."""
    offsets: np.ndarray
    """int64 (n + 1,): The first token of each document, and the end."""
    places: np.ndarray
    """uint64 (n,): The number of each document in the upper half, and the number of its first token
    of this piece in the lower half."""

    @property
    def longest(self) -> int:
        """The largest number of tokens of a document in this piece."""
        return int(np.diff(self.offsets).max(initial=0))


class TokenReader:
    """A reader of the tokens of texts. Each thread needs its own."""

    def __init__(self, shingler: Shingler, least: int) -> None:
        self._shingler = shingler
        self._overlap = least - 1

    def read_pieces(self, texts: pa.Array, first: int) -> Iterator[TokenPiece]:
        """Yields the tokens of texts. The next piece overwrites the previous one."""
        data, offsets = text_buffers(texts)
        for start, end in _divide(offsets):
            if int(offsets[end] - offsets[start]) > PIECE_BYTES:
                yield from self._parts_of(data, offsets[start : end + 1], first + start)
            else:
                yield self._locate(data, offsets[start : end + 1], first + start)

    def read_documents(self, texts: pa.Array, first: int) -> Iterator[TokenPiece]:
        """Yields the tokens of texts, with all tokens of a long document in one piece.

        The next piece overwrites the previous one.
        """
        data, offsets = text_buffers(texts)
        for start, end in _divide(offsets):
            if int(offsets[end] - offsets[start]) > PIECE_BYTES:
                parts = self._parts_of(data, offsets[start : end + 1], first + start)
                yield _join_parts(list(parts))
            else:
                yield self._locate(data, offsets[start : end + 1], first + start)

    def _locate(self, data: np.ndarray, offsets: np.ndarray, first: int) -> TokenPiece:
        tokens = self._shingler.locate_tokens(data, offsets)
        numbers = np.arange(first, first + len(offsets) - 1, dtype=np.uint64)
        return TokenPiece(
            hashes=tokens.hashes,
            starts=tokens.starts,
            ends=tokens.ends,
            offsets=tokens.offsets,
            places=numbers << np.uint64(32),
        )

    def _parts_of(self, data: np.ndarray, bounds: np.ndarray, number: int) -> Iterator[TokenPiece]:
        begin, end = int(bounds[0]), int(bounds[1])
        carried = _no_tokens()
        tokens_before = 0
        at = begin
        while at < end:
            stop = int(end_of_segments(data, np.uint64(at), np.uint64(end), np.uint64(PIECE_BYTES)))
            part = self._shingler.locate_tokens(data, np.array([at, stop], np.int64))
            shift = np.uint32(at - begin)
            hashes = np.concatenate([carried.hashes, part.hashes])
            starts = np.concatenate([carried.starts, part.starts + shift])
            ends = np.concatenate([carried.ends, part.ends + shift])
            place = np.array([number << 32 | tokens_before], np.uint64)
            yield TokenPiece(hashes, starts, ends, np.array([0, len(hashes)]), place)
            kept = min(self._overlap, len(hashes))
            tokens_before += len(hashes) - kept
            last = slice(len(hashes) - kept, None)
            carried = LocatedTokens(
                hashes[last].copy(), starts[last].copy(), ends[last].copy(), carried.offsets
            )
            at = stop


def _divide(offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yields ranges of texts that have about PIECE_BYTES together. A longer text is one range."""
    start = 0
    while start < len(offsets) - 1:
        limit = int(offsets[start]) + PIECE_BYTES
        end = max(start + 1, int(np.searchsorted(offsets, limit, side="right")) - 1)
        yield start, end
        start = end


def _join_parts(parts: list[TokenPiece]) -> TokenPiece:
    """Returns the parts of one document, which may overlap, as one piece."""
    total = 0
    repeated = []
    for part in parts:
        repeated.append(total - int(part.places[0] & np.uint64(0xFFFFFFFF)))
        total += len(part.hashes) - repeated[-1]
    hashes, starts, ends = (
        np.concatenate([part[column][skip:] for part, skip in zip(parts, repeated, strict=True)])
        for column in range(3)
    )
    return TokenPiece(hashes, starts, ends, np.array([0, total]), parts[0].places)


def _no_tokens() -> LocatedTokens:
    return LocatedTokens(
        np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.uint32), np.zeros(1)
    )


def locate_all_tokens(shingler: Shingler, text: str) -> LocatedTokens:
    """Returns all tokens of one text of any size."""
    pieces = [
        (piece.hashes.copy(), piece.starts.copy(), piece.ends.copy())
        for piece in TokenReader(shingler, 1).read_pieces(pa.array([text], pa.large_string()), 0)
    ]
    hashes, starts, ends = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return LocatedTokens(hashes, starts, ends, np.array([0, len(hashes)], np.int64))
