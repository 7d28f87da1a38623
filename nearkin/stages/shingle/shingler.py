"""The shingler: from documents to shingle hashes, as a Spec defines them."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.stages.hashing import kernels as hashing
from nearkin.stages.hashing.families import key_of
from nearkin.stages.shingle import kernels
from nearkin.stages.shingle.comments import strip_comments
from nearkin.stages.shingle.frequency_cut import Cut
from nearkin.stages.shingle.markup import strip_markup
from nearkin.stages.shingle.masks import MASKS, mask_texts
from nearkin.stages.shingle.stemming import Stems
from nearkin.stages.shingle.tokens.kernels import SEGMENT, Scratch, is_ascii, longest_segment
from nearkin.stages.shingle.unicode_tables import tables_for

STEPS_BEFORE_KERNELS = ("comments", "markup", *MASKS)
"""The normalization steps that make new texts, before the kernels read them."""
STEPS_OF_SLOW_PATH = {"digits", "punctuation", "symbols"}
"""The normalization steps with which no text is treated in place."""
LOCATABLE_STEPS = ("nfkc", "lower", "marks")
"""The normalization steps after which the bytes of a token in the original text are known."""
PADDING, FRONT = 256, 16
USUAL_SEGMENT = int(SEGMENT)
"""The number of bytes above which a segment, which has no separators then, is unusual."""
LARGE = 1 << 22
"""The number of elements above which a buffer is released after use."""
POINTS_PER_BYTE = 6
TEXT_PER_BYTE = 11
TOKENS_PER_BYTE = 2
"""The largest numbers of code points, bytes and tokens into which a byte is normalized.

U+FDFA (3 bytes) becomes 18 code points of 33 bytes, and U+3300 becomes 6 tokens.
"""


WHOLE_TEXT = 1 << 40
"""More code points than a text has, so that its only window is the whole text."""


SYMBOL_WORDS = 3
"""The number of words about the symbols of a document: two sums of hashes, and their number."""


class Shingles(NamedTuple):
    """The shingle hashes of documents, in the order of their texts, with repetitions."""

    hashes: np.ndarray
    """uint64 (total,): The hashes, one document after the other."""
    offsets: np.ndarray
    """int64 (n + 1,): The first hash of each document, and the end."""
    symbols: np.ndarray | None = None
    """uint64 (n, SYMBOL_WORDS): What the symbols of each document add to the two sums of its
    content hash, and their number. None if documents are not texts."""

    @property
    def content_symbols(self) -> np.ndarray:
        """The symbols as `stream_fingerprints` reads them, uint64 (n, SYMBOL_WORDS)."""
        if self.symbols is not None:
            return self.symbols
        return np.zeros((len(self.offsets) - 1, SYMBOL_WORDS), np.uint64)


class LocatedTokens(NamedTuple):
    """The tokens of documents, in the order of their texts."""

    hashes: np.ndarray
    """uint64 (total,): The hashes of the tokens."""
    starts: np.ndarray
    """uint32 (total,): The first byte of each token, relative to its text."""
    ends: np.ndarray
    """uint32 (total,): The byte after the last one of each token, relative to its text."""
    offsets: np.ndarray
    """int64 (n + 1,): The first token of each document, and the end."""


def text_buffers(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Returns the UTF-8 bytes and the offsets, int64 (n + 1,), of texts without nulls.

    Both are read-only buffers of the array, large_string (n,), and not copies.
    """
    if len(texts) == 0:
        return _read_only(np.zeros(0, np.uint8)), _read_only(np.zeros(1, np.int64))
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    bytes_ = (
        np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    )
    return _read_only(bytes_), _read_only(ends)


def encode_texts(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the UTF-8 form of texts, as `text_buffers` returns that of an array."""
    encoded = [text.encode() for text in texts]
    offsets = np.fromiter(accumulate(map(len, encoded), initial=0), np.int64, len(encoded) + 1)
    return np.frombuffer(b"".join(encoded), np.uint8), _read_only(offsets)


def to_texts(data: np.ndarray, offsets: np.ndarray) -> pa.Array:
    """Returns the large_string array of buffers of valid UTF-8, without a copy."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


def _read_only(array: np.ndarray) -> np.ndarray:
    """Makes an array read-only, so that Numba compiles kernels only for read-only arrays."""
    array.flags.writeable = False
    return array


class Shingler:
    """A shingler of batches of documents.

    It owns buffers, so each thread needs its own. The next call overwrites the previous result.

    Args:
        spec: Spec of the shingles, not of vectors.
        secret: Hash key, if the Spec is keyed.
        cut: Shingles that `without_cut` removes. `texts` and `tokens` do not remove them.

    Raises:
        KeyRequiredError: If the Spec is keyed and the key is missing or different.
        IncompatibleError: If the Spec has stems of another release of the stemmer.

    Examples:
        >>> texts = pa.array(["The cat sat.", "", "the CAT sat", "cat"], pa.large_string())
        >>> data, offsets = text_buffers(texts)
        >>> shingles = Shingler(Spec(n=2)).texts(data, offsets)
        >>> shingles.offsets.tolist()
        [0, 2, 2, 4, 5]
        >>> shingles.hashes[:2].tolist() == shingles.hashes[2:4].tolist()
        True
    """

    def __init__(self, spec: Spec, secret: HashKey | None = None, cut: Cut | None = None) -> None:
        self.spec = spec
        self._cut = cut
        steps = tuple(step for step in spec.normalise if step not in STEPS_BEFORE_KERNELS)
        self._masks = tuple(step for step in spec.normalise if step in MASKS)
        self.tables = tables_for(steps, spec.version)
        self.fast = "lower" in spec.normalise and not STEPS_OF_SLOW_PATH & set(spec.normalise)
        self.key = key_of(spec.base_hash, spec.hash_seed, spec.require_key(secret))
        self._stems = Stems(spec, self.key) if spec.stem else None
        self._buffers: dict[str, np.ndarray] = {}
        self._has_large_buffer = False
        self._usual_scratches: dict[int, Scratch] = {}
        """The buffers of segments of usual size, by the largest growth of a byte."""

    def without_cut(self, shingles: Shingles) -> Shingles:
        """Returns the shingles that remain after the frequency cut."""
        if self._cut is None:
            return shingles
        hashes, offsets = self._cut.apply(shingles.hashes, shingles.offsets)
        return Shingles(hashes, offsets)

    def texts(self, data: np.ndarray, offsets: np.ndarray) -> Shingles:
        """Returns the shingles of texts.

        Args:
            data: Valid UTF-8 bytes of the texts, uint8.
            offsets: First byte of each text, and the end, int64 (n + 1,).
        """
        if "comments" in self.spec.normalise:
            data, offsets = strip_comments(data, offsets)
        if "markup" in self.spec.normalise:
            data, offsets = text_buffers(strip_markup(data, offsets, self.spec.version))
        if self._masks:
            data, offsets = text_buffers(mask_texts(to_texts(data, offsets), self._masks))
        if self.spec.unit == "chars":
            shingles = self._characters(data, offsets, self.spec.n)
        elif self._stems is not None:
            shingles = self._stemmed(data, offsets, self._stems)
        else:
            shingles = self._words(data, offsets)
        self.release_large_buffers()
        return shingles

    def tokens(
        self, data: np.ndarray, token_offsets: np.ndarray, list_offsets: np.ndarray
    ) -> Shingles:
        """Returns the shingles of documents that are lists of tokens.

        Tokens are hashed without normalization, for every unit.

        Args:
            data: UTF-8 bytes of the tokens, uint8.
            token_offsets: First byte of each token, and the end, int64 (tokens + 1,).
            list_offsets: First token of each document, and the end, int64 (n + 1,).
        """
        first, last = int(list_offsets[0]), int(list_offsets[-1])
        out = self._buffer("hashes", np.uint64, last - first)
        hashing.hash_each(data, token_offsets[first : last + 1], self.key, out[: last - first])
        lists = list_offsets - first
        ends = np.empty(len(lists), np.int64)
        without_symbols = np.zeros((len(lists) - 1, SYMBOL_WORDS), np.uint64)
        kernels.combine_all(out, lists, self.spec.n, without_symbols, out, ends)
        return Shingles(out[: ends[-1]], ends)

    def locate_tokens(self, data: np.ndarray, offsets: np.ndarray) -> LocatedTokens:
        """Returns the tokens of texts, with the bytes of the original texts that they come from.

        They are words, or the code points of words if the unit of the Spec is `chars`.

        Args:
            data: Valid UTF-8 bytes of the texts, uint8. No text has 4 GiB or more.
            offsets: First byte of each text, and the end, int64 (n + 1,).

        Raises:
            UsageError: If the Spec does not keep track of the bytes of a token.
        """
        require_located_tokens(self.spec)
        scratch, growth = self._scratch(data, offsets)
        is_of_words = self.spec.unit == "words"
        tokens_per_byte = TOKENS_PER_BYTE if is_of_words else POINTS_PER_BYTE
        most = _total(offsets) * min(growth, tokens_per_byte)
        hashes = self._buffer("hashes", np.uint64, most)
        starts = self._buffer("starts", np.uint32, most)
        ends = self._buffer("ends", np.uint32, most)
        token_offsets = np.empty(len(offsets), np.int64)
        if is_of_words:
            kernels.locate_tokens(
                data,
                offsets,
                self.tables,
                scratch,
                self.key,
                hashes,
                starts,
                ends,
                token_offsets,
            )
        else:
            kernels.locate_characters(
                data,
                offsets,
                self.tables,
                scratch,
                self.key,
                self._buffer("characters", np.uint32, 2 * len(scratch.text)),
                hashes,
                starts,
                ends,
                token_offsets,
            )
        self.release_large_buffers()
        total = token_offsets[-1]
        return LocatedTokens(hashes[:total], starts[:total], ends[:total], token_offsets)

    def hash_whole_texts(self, data: np.ndarray, offsets: np.ndarray) -> Shingles:
        """Returns one hash of each text after normalization, and none of a text without content.

        A run of white space counts as one space, and white space at both ends is not hashed.

        Args:
            data: Valid UTF-8 bytes of the texts, uint8.
            offsets: First byte of each text, and the end, int64 (n + 1,).

        Raises:
            UsageError: If the Spec has steps that change whole documents.
        """
        require_located_tokens(self.spec)
        hashes, ends, symbols = self._characters(data, offsets, WHOLE_TEXT)
        assert symbols is not None
        hashes = hashes + symbols[ends[1:] > ends[:-1], 0]
        self.release_large_buffers()
        return Shingles(hashes, ends)

    @property
    def has_plain_words(self) -> bool:
        """True if `kernels.word_shingles` alone computes the compared shingles of texts."""
        return (
            self.spec.unit == "words"
            and self._stems is None
            and self._cut is None
            and not set(STEPS_BEFORE_KERNELS) & set(self.spec.normalise)
        )

    def word_buffers(self, data: np.ndarray, offsets: np.ndarray) -> tuple[Scratch, np.ndarray]:
        """Returns the buffers of `kernels.word_shingles` for texts.

        Args:
            data: Valid UTF-8 bytes of the texts, uint8.
            offsets: First byte of each text, and the end, int64 (n + 1,).

        Returns:
            The buffers of one segment, and an array for the hashes, uint64.
        """
        scratch, growth = self._scratch(data, offsets)
        most = _total(offsets) * min(growth, TOKENS_PER_BYTE)
        return scratch, self._buffer("hashes", np.uint64, most)

    def _words(self, data: np.ndarray, offsets: np.ndarray) -> Shingles:
        scratch, out = self.word_buffers(data, offsets)
        ends = np.empty(len(offsets), np.int64)
        symbols = self._symbols(offsets)
        kernels.word_shingles(
            data,
            offsets,
            self.spec.n,
            self.fast,
            self.tables,
            scratch,
            self.key,
            out,
            ends,
            symbols,
        )
        return Shingles(out[: ends[-1]], ends, symbols)

    def _characters(self, data: np.ndarray, offsets: np.ndarray, n: int) -> Shingles:
        scratch, growth = self._scratch(data, offsets)
        longest = int(np.diff(offsets).max(initial=0))
        text = self._buffer("document", np.uint8, longest * min(growth, TEXT_PER_BYTE))[FRONT:]
        out = self._buffer("hashes", np.uint64, _total(offsets) * min(growth, POINTS_PER_BYTE))
        ends = np.empty(len(offsets), np.int64)
        symbols = self._symbols(offsets)
        kernels.character_shingles(
            data, offsets, n, self.tables, scratch, self.key, text, out, ends, symbols
        )
        return Shingles(out[: ends[-1]], ends, symbols)

    def _stemmed(self, data: np.ndarray, offsets: np.ndarray, stems: Stems) -> Shingles:
        scratch, growth = self._scratch(data, offsets)
        text = self._buffer("document", np.uint8, _total(offsets) * min(growth, TEXT_PER_BYTE))
        token_offsets = self._buffer(
            "tokens", np.int64, _total(offsets) * min(growth, TOKENS_PER_BYTE) + 1
        )
        lists = np.empty(len(offsets), np.int64)
        symbols = self._symbols(offsets)
        count = int(
            kernels.collect_tokens(
                data, offsets, self.fast, self.tables, scratch, text, token_offsets, lists, symbols
            )
        )
        hashes = stems.hashes(text, token_offsets[: count + 1])
        # a text without tokens can have a shingle of its symbols
        out = self._buffer("hashes", np.uint64, count + len(lists))
        ends = np.empty(len(lists), np.int64)
        kernels.combine_all(hashes, lists, self.spec.n, symbols, out, ends)
        return Shingles(out[: ends[-1]], ends, symbols)

    def _symbols(self, offsets: np.ndarray) -> np.ndarray:
        """Returns a reused array for what the symbols of texts add, uint64 (n, SYMBOL_WORDS)."""
        count = len(offsets) - 1
        words = self._buffer("symbols", np.uint64, count * SYMBOL_WORDS)
        return words[: count * SYMBOL_WORDS].reshape(count, SYMBOL_WORDS)

    def _scratch(self, data: np.ndarray, offsets: np.ndarray) -> tuple[Scratch, int]:
        """Returns buffers for the longest segment, and the largest growth of a byte."""
        growth = 1 if is_ascii(data, offsets[0], offsets[-1]) else TEXT_PER_BYTE
        longest = 0
        if _total(offsets) > USUAL_SEGMENT:
            longest = int((offsets[1:] - offsets[:-1]).max(initial=0))
        if longest > USUAL_SEGMENT:
            longest = int(longest_segment(data, offsets))
        if longest > USUAL_SEGMENT:
            return self._create_scratch(longest, growth), growth
        if growth not in self._usual_scratches:
            self._usual_scratches[growth] = self._create_scratch(USUAL_SEGMENT, growth)
        return self._usual_scratches[growth], growth

    def _create_scratch(self, longest: int, growth: int) -> Scratch:
        size = longest + PADDING
        points, tokens = size * min(growth, POINTS_PER_BYTE), size * min(growth, TOKENS_PER_BYTE)
        return Scratch(
            points=self._buffer("points", np.uint32, points),
            spare=self._buffer("spare", np.uint32, points),
            text=self._buffer("text", np.uint8, size * (1 + growth))[FRONT:],
            inside=self._buffer("inside", np.uint8, size),
            mask=self._buffer("mask", np.uint64, size // 64 + 2),
            cuts=self._buffer("cuts", np.uint64, size // 64 + 2),
            symbols=self._buffer("symbol_mask", np.uint64, size // 64 + 2),
            edges=self._buffer("edges", np.uint32, 2 * tokens),
            origins=self._buffer("origins", np.uint32, 2 * tokens),
            sums=np.zeros(4, np.uint64),
        )

    def _buffer(self, name: str, dtype: type, size: int) -> np.ndarray:
        """Returns a reused array of at least `size` elements, with undefined content."""
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size + PADDING:
            buffer = np.empty(size + PADDING, dtype)
            self._buffers[name] = buffer
            self._has_large_buffer |= len(buffer) > LARGE
        return buffer

    def release_large_buffers(self) -> None:
        """Releases large buffers, which one huge document would otherwise keep until the end."""
        if not self._has_large_buffer:
            return
        self._has_large_buffer = False
        self._buffers = {
            name: buffer for name, buffer in self._buffers.items() if len(buffer) <= LARGE
        }


def require_located_tokens(spec: Spec) -> None:
    """Requires a Spec whose tokens can be located in the original text."""
    if spec.unit not in ("words", "chars"):
        raise UsageError(
            f"passages are runs of words or characters, and {name_setting('shingle', spec.unit)} "
            f"has none; give {name_setting('shingle', 'words:N')}"
        )
    others = [step for step in spec.normalise if step not in LOCATABLE_STEPS]
    if others or "lower" not in spec.normalise:
        named = ",".join(spec.normalise)
        raise UsageError(
            f"the bytes of passages are known only after the normalization steps "
            f"{', '.join(LOCATABLE_STEPS)}, and lower is required, not after "
            f"{name_setting('normalise', named)}; leave out the others"
        )
    if spec.stem:
        raise UsageError(
            f"passages are runs of equal words, and {name_setting('stem', spec.stem)} makes other "
            "words equal; leave it out"
        )


def _total(offsets: np.ndarray) -> int:
    return int(offsets[-1] - offsets[0])
