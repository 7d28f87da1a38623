"""Benchmark suites: the words of their items, without texts, or fingerprints alone."""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from nearkin.errors import IncompatibleError, KeyRequiredError, UsageError
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import KEYED, Spec
from nearkin.stages.packed_pairs import sorted_unique
from nearkin.stages.shingle.shingler import Shingler
from nearkin.stages.winnowing.tokens import TokenReader
from nearkin.texts.decontamination import kernels

ITEM_COLUMNS = pa.schema([("suite", pa.int32()), ("id", pa.large_string()), ("copies", pa.int64())])
"""The different items: the number of the suite, the id of the first item of those with equal texts,
and how many these are."""


class SuiteFacts(NamedTuple):
    """The size of a suite."""

    name: str
    items: int
    """The number of its items, including equal ones and those without words."""


@dataclass(frozen=True, eq=False)
class Suites:
    """Several benchmark suites.

    An item is a question with its answer, for example. Its fields are texts. Each field is one
    part, and a second one if its words differ without punctuation.

    Attributes:
        spec: Spec of the words.
        suites: Names and sizes of the suites.
        fields: Names of the fields.
        items: The different items that have words, with the columns ITEM_COLUMNS.
        part_items: Number of the item of each part, int64 (p,), ascending.
        part_fields: Number of the field of each part, int64 (p,).
        offsets: First word of each part, and the end, int64 (p + 1,).
        rarity: How rare each word is among the items of its suite, float32 (words,), in (0, 1].
        tokens: Hashes of the words, uint64 (words,). Empty if only fingerprints are known.
        width: Number of words of a fingerprint, or None if the words are known.
        fingerprints: Hashes of all runs of `width` words of the parts, uint64.
    """

    spec: Spec
    suites: tuple[SuiteFacts, ...]
    fields: tuple[str, ...]
    items: pa.Table
    part_items: np.ndarray
    part_fields: np.ndarray
    offsets: np.ndarray
    rarity: np.ndarray
    tokens: np.ndarray
    width: int | None = None
    fingerprints: np.ndarray | None = None

    def __repr__(self) -> str:
        names = ", ".join(suite.name for suite in self.suites)
        return f"<Suites: {self.items.num_rows:,} different items of {names}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the suites."""
        return tuple(suite.name for suite in self.suites)

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(self.part_items)

    @cached_property
    def fingerprint(self) -> str:
        """The first 16 hexadecimal digits of a hash of the content."""
        digest = hashlib.sha256()
        about = [self.spec.to_json(), self.suites, self.fields, self.width]
        digest.update(json.dumps([*about, self.items.to_pydict()]).encode())
        arrays = [self.part_items, self.part_fields, self.offsets, self.rarity, self.tokens]
        if self.fingerprints is not None:
            arrays.append(self.fingerprints)
        for array in arrays:
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def fingerprints_of(self, width: int) -> np.ndarray:
        """Returns the hashes of the runs of words of the parts that have enough, uint64."""
        if self.fingerprints is not None:
            if width != self.width:
                raise IncompatibleError(
                    f"the suites have fingerprints of {self.width} words, and this operating point "
                    f"compares {width}; choose the other {name_setting('operating_point')}, or "
                    f"build the suites again"
                )
            return self.fingerprints
        counts = run_counts(self.offsets, width)
        out = np.empty(int(counts.sum()), np.uint64)
        kernels.hash_parts(self.tokens, self.offsets, width, out)
        return out

    def without_words(self, width: int) -> "Suites":
        """Returns the suites with fingerprints in place of words. Shorter parts are left out."""
        if self.spec.key_id is None:
            raise KeyRequiredError(
                "the words of the suites were hashed without a key, so that fingerprints would not "
                "hide them; build the suites again from their tables"
            )
        fingerprints = self.fingerprints_of(width)
        if self.fingerprints is not None:
            return self
        kept = np.flatnonzero(np.diff(self.offsets) >= width)
        numbers = sorted_unique(self.part_items[kept])
        rows = _rows_of_parts(self.offsets, kept)
        return Suites(
            spec=self.spec,
            suites=self.suites,
            fields=self.fields,
            items=self.items.take(pa.array(numbers)),
            part_items=np.searchsorted(numbers, self.part_items[kept]),
            part_fields=self.part_fields[kept],
            offsets=_offsets_of(np.diff(self.offsets)[kept]),
            rarity=self.rarity[rows],
            tokens=np.empty(0, np.uint64),
            width=width,
            fingerprints=fingerprints,
        )


def run_counts(offsets: np.ndarray, width: int) -> np.ndarray:
    """Returns the number of runs of words of each part, int64 (p,), by the offsets of all words."""
    return np.maximum(np.diff(offsets) - width + 1, 0)


def _offsets_of(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _rows_of_parts(offsets: np.ndarray, parts: np.ndarray) -> np.ndarray:
    counts = np.diff(offsets)[parts]
    ends = np.cumsum(counts)
    return np.repeat(offsets[parts] - (ends - counts), counts) + np.arange(int(counts.sum()))


def merge_suites(parts: Sequence[Suites]) -> Suites:
    """Returns several suites as one object.

    If some have fingerprints in place of words, so does the result.
    """
    first = parts[0]
    for part in parts[1:]:
        first.spec.require(part.spec, "a suite")
    widths = [part.width for part in parts if part.width is not None]
    if widths:
        parts = [part.without_words(widths[0]) for part in parts]
    names = [name for part in parts for name in part.names]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two suites have the name {name!r}, which is that of their files; rename a file"
            )
    fields = tuple(dict.fromkeys(name for part in parts for name in part.fields))
    items: list[pa.Table] = []
    part_items: list[np.ndarray] = []
    part_fields: list[np.ndarray] = []
    suites_before = items_before = 0
    for part in parts:
        suite = pa.compute.add(part.items["suite"], pa.scalar(suites_before, pa.int32()))
        items.append(part.items.set_column(0, "suite", suite))
        part_items.append(part.part_items + items_before)
        numbers = np.array([fields.index(name) for name in part.fields], np.int64)
        part_fields.append(numbers[part.part_fields])
        suites_before += len(part.suites)
        items_before += part.items.num_rows
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    fingerprints = None
    if widths:
        fingerprints = np.concatenate([part.fingerprints_of(widths[0]) for part in parts])
    return Suites(
        spec=first.spec,
        suites=tuple(suite for part in parts for suite in part.suites),
        fields=fields,
        items=pa.concat_tables(items).combine_chunks(),
        part_items=np.concatenate(part_items),
        part_fields=np.concatenate(part_fields),
        offsets=_offsets_of(counts),
        rarity=np.concatenate([part.rarity for part in parts]),
        tokens=np.concatenate([part.tokens for part in parts]),
        width=widths[0] if widths else None,
        fingerprints=fingerprints,
    )


class ItemTexts(NamedTuple):
    """The texts of consecutive items of one suite."""

    ids: list[str]
    fields: Mapping[str, list[str]]
    """The text of each item, by the name of the field. It is empty if an item lacks the field."""
    rejected: int = 0
    """The number of rows between them that cannot be read."""


def spec_of_words(key_id: str | None) -> Spec:
    """Returns the Spec of the words of suites and documents."""
    if key_id is None:
        return Spec(n=1)
    return Spec(n=1, base_hash=KEYED, hash_seed=0, key_id=key_id)


def build_suite(
    name: str, fields: Sequence[str], texts: Iterable[ItemTexts], key: HashKey | None
) -> Suites:
    """Returns one suite.

    Examples:
        >>> texts = ItemTexts(["1", "2"], {"question": ["Who wrote 'Faust'?", "who wrote Faust"]})
        >>> suite = build_suite("quiz", ["question"], [texts], None)
        >>> suite.items.to_pylist()
        [{'suite': 0, 'id': '1', 'copies': 2}]
        >>> suite.parts, suite.offsets.tolist()
        (1, [0, 3])
    """
    spec = spec_of_words(None if key is None else key.id)
    reader = TokenReader(Shingler(spec, key), 1)
    ids: list[str] = []
    copies: list[int] = []
    numbers: dict[tuple[bytes, ...], int] = {}
    part_items: list[int] = []
    part_fields: list[int] = []
    tokens: list[np.ndarray] = []
    rows = 0
    for block in texts:
        rows += block.rejected + len(block.ids)
        forms = [_read_forms(block.fields[field], reader) for field in fields]
        for id, own in zip(block.ids, zip(*forms, strict=True), strict=True):
            content = tuple(form.words.tobytes() for form in own)
            if not any(content):
                continue
            number = numbers.setdefault(content, len(ids))
            if number < len(ids):
                copies[number] += 1
                continue
            ids.append(id)
            copies.append(1)
            for field, form in enumerate(own):
                for words in (form.words, form.joined):
                    if words is not None and len(words):
                        part_items.append(number)
                        part_fields.append(field)
                        tokens.append(words)
    hashes = np.concatenate([np.empty(0, np.uint64), *tokens])
    items_of_parts = np.array(part_items, np.int64)
    offsets = _offsets_of(np.array([len(part) for part in tokens], np.int64))
    items = pa.table([pa.array([0] * len(ids), pa.int32()), ids, copies], schema=ITEM_COLUMNS)
    return Suites(
        spec=spec,
        suites=(SuiteFacts(name, rows),),
        fields=tuple(fields),
        items=items,
        part_items=items_of_parts,
        part_fields=np.array(part_fields, np.int64),
        offsets=offsets,
        rarity=_rarity_of(hashes, np.repeat(items_of_parts, np.diff(offsets)), len(ids)),
        tokens=hashes,
    )


def _rarity_of(words: np.ndarray, items: np.ndarray, count: int) -> np.ndarray:
    """Returns how rare each word, uint64 (n,), is among the items, which ascend, float32 (n,).

    It is ln((M + 1) / m) / ln(M + 1) for a word that m of M items contain: 1 if no other item
    contains it, and almost 0 if all do.
    """
    if not len(words):
        return np.empty(0, np.float32)
    different = sorted_unique(words)
    codes = kernels.number_words(words, different)
    frequencies = np.zeros(len(different), np.int64)
    kernels.count_items(codes, items, np.full(len(different), -1, np.int64), frequencies)
    rarity = np.log((count + 1) / frequencies) / np.log(count + 1)
    return np.asarray(rarity[codes], np.float32)


class _Deletions(dict[int, int | None]):
    """The characters that are deleted from a text: punctuation and symbols."""

    def __missing__(self, point: int) -> int | None:
        kept = None if unicodedata.category(chr(point))[0] in "PS" else point
        self[point] = kept
        return kept


DELETIONS = _Deletions()
ASCII_DELETIONS = bytes(point for point in range(128) if DELETIONS[point] is None)


def delete_punctuation(text: str) -> str:
    """Returns a text without its punctuation and symbols.

    Examples:
        >>> delete_punctuation("don't ask: 5 %"), delete_punctuation("«ja», 5 €")
        ('dont ask 5 ', 'ja 5 ')
    """
    # `str.translate` looks each character up in a dictionary
    if text.isascii():
        return text.encode().translate(None, ASCII_DELETIONS).decode()
    return text.translate(DELETIONS)


class TextForms(NamedTuple):
    """The words of a text."""

    words: np.ndarray
    """uint64 (n,): The hashes of its words."""
    joined: np.ndarray | None
    """uint64 (m,): The words after punctuation was deleted, or None if they are the same.

    A document from which punctuation was deleted has `dont` in place of `don't`.
    """


def _read_forms(texts: list[str], reader: TokenReader) -> list[TextForms]:
    words = _read_words(texts, reader)
    joined = _read_words([delete_punctuation(text) for text in texts], reader)
    return [
        TextForms(plain, None if plain.tobytes() == other.tobytes() else other)
        for plain, other in zip(words, joined, strict=True)
    ]


def _read_words(texts: list[str], reader: TokenReader) -> list[np.ndarray]:
    words: list[np.ndarray] = []
    for piece in reader.read_documents(pa.array(texts, pa.large_string()), 0):
        hashes = piece.hashes.copy()
        bounds = piece.offsets.tolist()
        words += [hashes[start:end] for start, end in pairwise(bounds)]
    return words


def flatten_value(text: str | None) -> str:
    r"""Returns a value of a field as one text. The texts of a list or object are joined by lines.

    Examples:
        >>> flatten_value('["red", "blue"]'), flatten_value("red"), flatten_value(None)
        ('red\nblue', 'red', '')
    """
    if text is None:
        return ""
    if not text.startswith(("[", "{")):
        return text
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return "\n".join(_flatten(value))


def _flatten(value: object) -> Iterator[str]:
    # Values of strangers can be nested more deeply than functions may call themselves.
    remaining = [value]
    while remaining:
        inner = remaining.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, Mapping):
            remaining.extend(reversed(list(inner.values())))
        elif isinstance(inner, list):
            remaining.extend(reversed(inner))
        elif inner is not None:
            yield str(inner)


def require_keyed(key: HashKey | None) -> HashKey:
    """Requires a hash key for suites without words."""
    if key is None:
        raise UsageError(
            f"{name_flag('keyed')} needs a hash key, without which anybody can test words; give "
            f"{name_setting('key')}"
        )
    return key
