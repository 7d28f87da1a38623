"""Facts about batches of documents: lengths, hashes of ids and blocks."""

import hashlib
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.canonical_dois import canonicalize_dois
from nearkin.stages.hashing import kernels as hashing
from nearkin.stages.hashing.families import key_of
from nearkin.stages.shingle import text_buffers
from nearkin.stages.wording import hash_wordings

NULL_VALUE = 0x6E756C6C
"""The hash of a value that is null, for example the source of documents without one."""
MIX_OFFSET = np.uint64(0x9E3779B97F4A7C15)
MIX_FACTORS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
"""Odd factors whose bits are irregular: those of the finalizer of MurmurHash3 (Appleby)."""


class TextFact(StrEnum):
    """The parts of wordings that acceptances compare. The values name files."""

    NUMBERS = "numbers"
    WORDING = "wording"


def text_lengths(documents: pa.Array) -> np.ndarray:
    """Returns the size of each document's text, or of all its tokens, in bytes, int64 (n,)."""
    if pa.types.is_struct(documents.type):
        fields = (documents.field(position) for position in range(documents.type.num_fields))
        texts = [field for field in fields if pa.types.is_large_string(field.type)]
        lengths = [pc.fill_null(pc.binary_length(text), 0).to_numpy() for text in texts]
        return np.sum([np.zeros(len(documents), np.int64), *lengths], axis=0)
    is_fixed = pa.types.is_fixed_size_list(documents.type)
    if is_fixed or pa.types.is_fixed_size_binary(documents.type):
        return np.zeros(len(documents), np.int64)
    first, last = documents.offset, documents.offset + len(documents) + 1
    offsets = np.frombuffer(documents.buffers()[1], np.int64)[first:last]
    if pa.types.is_large_list(documents.type):
        tokens = documents.values
        token_offsets = np.frombuffer(tokens.buffers()[1], np.int64)[tokens.offset :]
        return np.diff(token_offsets[offsets])
    return np.diff(offsets)


def id_hashes(ids: pa.Array) -> np.ndarray:
    """Returns a 64-bit hash of each id, uint64 (n,).

    Args:
        ids: Ids, large_string (n,).
    """
    data, offsets = text_buffers(ids)
    out = np.empty(len(ids), np.uint64)
    hashing.hash_each(data, offsets, key_of("xxh3", 0), out)
    return out


def value_hashes(values: pa.Array) -> np.ndarray:
    """Returns a hash of each value of a column, for example of sources, as text, uint64 (n,).

    Args:
        values: Values, (n,). All nulls are one value.
    """
    encoded = values.cast(pa.large_string()).dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    digests = [hashlib.sha256(value.as_py().encode()).digest() for value in encoded.dictionary]
    hashes = [int.from_bytes(digest[:8], "little") for digest in digests]
    return np.array([*hashes, NULL_VALUE], np.uint64)[codes]


def block_hashes(values: pa.Array, missing: np.uint64) -> np.ndarray:
    """Returns a hash of the block of each document, uint64 (n,).

    Args:
        values: Values of the column of blocks, (n,). Nulls and empty texts are no values.
    """
    text = values.cast(pa.large_string())
    blocks = value_hashes(text)
    is_missing = pc.fill_null(pc.equal(text, ""), fill_value=True)
    blocks[is_missing.to_numpy(zero_copy_only=False)] = missing
    return blocks


def compared_value_hashes(values: pa.Array) -> np.ndarray:
    """Returns a hash of each value of a column that an acceptance compares, uint64 (n,).

    The forms of one DOI are equal. A null and an empty value are NULL_VALUE: there is no value.

    Args:
        values: Values, (n,).
    """
    texts = canonicalize_dois(values.cast(pa.large_string()))
    return value_hashes(pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts))


def hash_text_facts(documents: pa.Array, facts: Sequence[TextFact]) -> dict[TextFact, np.ndarray]:
    """Returns 128-bit hashes of what is compared of wordings, uint64 (n, 2) each."""
    if not facts:
        return {}
    hashes = hash_wordings(documents)
    of_facts = {TextFact.NUMBERS: hashes.numbers, TextFact.WORDING: hashes.wordings}
    return {fact: of_facts[fact] for fact in facts}


def mix_hashes(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns a hash of each pair of hashes, uint64 (n,). Their order matters.

    Args:
        first: Hashes, uint64 (n,).
        second: Hashes or other numbers, uint64 (n,).
    """
    mixed = (first ^ (second + MIX_OFFSET)) * MIX_FACTORS[0]
    mixed ^= mixed >> np.uint64(32)
    mixed *= MIX_FACTORS[1]
    mixed ^= mixed >> np.uint64(29)
    return np.asarray(mixed)
