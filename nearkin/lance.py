"""Signatures of the MinHash index of Lance: made, read from a table, compared, and clustered.

They are defined by version 0 of the signatures in Lance's specification of the index
(the page `minhash_lsh.md` of lance-format/lance). They are not comparable with those of
`nearkin.sketch`, which have other hashes and 32-bit slots.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.arrow_conversion import (
    replace_nulls,
    to_chunked,
    to_documents,
    type_name,
)
from nearkin.corpus.table_folders import TableFolder, TableFormat
from nearkin.corpus.table_versions import table_library_errors
from nearkin.errors import MissingExtraError, UsageError
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.arrow_types import is_list
from nearkin.runtime.number_range import COUNT, SHARE_ABOVE_0, NumberRange
from nearkin.stages.cluster.kernels import flatten, unite
from nearkin.stages.hashing.families import hash_rows
from nearkin.stages.hashing.kernels import xxh64_each
from nearkin.stages.lsh.band_keys import (
    EVERY_LATER,
    NEVER_HOT,
    slot_layout,
    split_buckets,
    write_band_keys,
)
from nearkin.stages.lsh.buckets import find_buckets
from nearkin.stages.lsh.kernels import bucket_pairs, pair_agreements
from nearkin.stages.packed_pairs import (
    PAIRS_PER_BATCH,
    isin_sorted,
    pack_pairs,
    sorted_unique,
    unpack_pairs,
)
from nearkin.stages.sketch.kernels import compressed_minhash
from nearkin.stages.sketch.minhash import splitmix64

NUM_HASHES = 128
"""The default number of values of a signature."""
NUM_BANDS = 16
"""The default number of bands."""
SHINGLE_SIZE = 3
"""The default number of tokens of a shingle."""
MAX_NUM_HASHES = 4096
MAX_NUM_BANDS = 256
SEED = 42
"""The seed of the hash and of the generator of the coefficients."""
SEPARATOR = "\x1f"
"""The character between the tokens of a shingle."""
SIGNATURE_VERSION = 0
"""The version of the signatures."""
BAND_KEY_BITS = 56
"""The number of bits of a band key that are a hash. The bits above are the number of the band."""
DOCUMENTS_PER_BATCH = 1024
"""The number of documents whose tokens are in memory at a time."""


@check_arguments
def minhash(
    documents: Any, *, num_hashes: int = NUM_HASHES, shingle_size: int = SHINGLE_SIZE
) -> pa.FixedSizeListArray:
    """Returns the signatures that Lance's index has for the same texts.

    Texts are split by the default tokenizer of the index, which is a part of pylance: lower-cased
    words without accents and of fewer than 40 bytes.

    Args:
        documents: A column of texts, which needs the extra `lance`, or of lists of tokens. Tokens
            are taken as they are.
        num_hashes: Number of values of a signature, 1 to 4096.
        shingle_size: Number of tokens of a shingle, 1 or more. A text of fewer tokens is one
            shingle.

    Returns:
        fixed_size_list<uint16>[num_hashes] (n,). It is null for a document without tokens.

    Raises:
        UsageError: If a value is not a text or a list of tokens, or a number is out of range.
        MissingExtraError: If documents are texts and pylance is not installed.

    Examples:
        >>> signatures = minhash(["The quick brown fox", "Fox", ""], num_hashes=4, shingle_size=2)
        >>> signatures.to_pylist()
        [[45071, 22998, 20762, 52524], [10608, 55003, 26104, 44540], None]
    """
    NumberRange(1, MAX_NUM_HASHES).require("num_hashes", num_hashes)
    COUNT.require("shingle_size", shingle_size)
    parts = [
        _sketch(chunk.slice(start, DOCUMENTS_PER_BATCH), num_hashes, shingle_size)
        for chunk in to_documents(replace_nulls(to_chunked(documents)))
        for start in range(0, len(chunk), DOCUMENTS_PER_BATCH)
    ]
    return pa.concat_arrays([pa.array([], pa.list_(pa.uint16(), num_hashes)), *parts])


@check_arguments
def band_keys(signatures: Any, *, num_bands: int = NUM_BANDS) -> pa.FixedSizeListArray:
    """Returns the band keys of signatures as Lance's index stores them.

    Args:
        signatures: Signatures, fixed_size_list<uint16> (n,) or uint16 (n, k).
        num_bands: Number of bands, 1 to 256, which divides the number of values of a signature.

    Returns:
        fixed_size_list<uint64>[num_bands] (n,). It is null for a null.

    Raises:
        UsageError: If the values are not signatures, or the number of bands is out of range.

    Examples:
        >>> signatures = minhash([["the", "quick", "brown", "fox"]], num_hashes=4, shingle_size=2)
        >>> [hex(key) for key in band_keys(signatures, num_bands=2)[0].as_py()]
        ['0xf30f3501d458ea', '0x1aec5df28d04915']
    """
    slots, has_tokens = _to_slots(signatures)
    rows = _rows_of_band(slots, num_bands)
    content = slots.astype("<u2", copy=False).view(np.uint8).reshape(-1)
    edges = np.arange(len(slots) * num_bands + 1, dtype=np.int64) * (2 * rows)
    keys = _hash_slices(content, edges[:-1], edges[1:]).reshape(len(slots), num_bands)
    keys &= np.uint64((1 << BAND_KEY_BITS) - 1)
    keys |= np.arange(num_bands, dtype=np.uint64) << np.uint64(BAND_KEY_BITS)
    return _to_array(keys, has_tokens)


@check_arguments
def similarity(a: Any, b: Any) -> pa.DoubleArray:
    """Returns the estimated Jaccard similarity of signatures, row by row.

    It is the share of equal values, and 1 − `_distance` of a search in Lance.

    Args:
        a: Signatures, fixed_size_list<uint16> (n,) or uint16 (n, k).
        b: Signatures of the same number and length.

    Returns:
        double (n,), from 0 to 1. It is null where a signature is null.

    Raises:
        UsageError: If the values are not signatures, or differ in their number or length.

    Examples:
        >>> texts = ["the cat sat on the mat today", "the cat sat on the mat"]
        >>> signatures = minhash(texts, num_hashes=1024)
        >>> similarity(signatures[:1], signatures[1:]).to_pylist()
        [0.8095703125]
    """
    first, has_first = _to_slots(a)
    second, has_second = _to_slots(b)
    if first.shape != second.shape:
        raise UsageError(
            f"{len(first):,} signatures of {first.shape[1]} values cannot be compared with "
            f"{len(second):,} of {second.shape[1]}, row by row; give as many of the same length"
        )
    shares = (first == second).mean(axis=1)
    return pa.array(shares, mask=~(has_first & has_second))


@check_arguments
def pairs(signatures: Any, threshold: float = 0.8, *, num_bands: int = NUM_BANDS) -> pa.Table:
    """Returns the pairs of signatures whose estimated similarity reaches the threshold.

    Signatures are compared if they share a band, as a search in Lance does. Of identical
    signatures, the first one is compared with others, and each further one is paired with it alone.

    Args:
        signatures: Signatures, fixed_size_list<uint16> (n,) or uint16 (n, k).
        threshold: Minimum estimated similarity of a pair, in (0, 1].
        num_bands: Number of bands, 1 to 256, which divides the number of values of a signature.

    Returns:
        Columns `a` and `b`, uint32 row numbers with a < b, in ascending order, and `similarity`,
        double.

    Raises:
        UsageError: If the values are not signatures, or a number is out of range.

    Examples:
        >>> texts = ["the cat sat on the mat today", "a dog", "the cat sat on the mat", "A dog!"]
        >>> pairs(minhash(texts), 0.7).to_pylist()
        [{'a': 0, 'b': 2, 'similarity': 0.84375}, {'a': 1, 'b': 3, 'similarity': 1.0}]
    """
    slots, has_tokens = _to_slots(signatures)
    parts = list(_find_pairs(slots, has_tokens, threshold, num_bands))
    found = sorted_unique(np.concatenate([np.empty(0, np.uint64), *parts]))
    agreements = np.empty(len(found), np.int64)
    layout = slot_layout(_rows_of_band(slots, num_bands)).layout
    pair_agreements(found, slots.astype(np.uint32), layout, agreements)
    a, b = unpack_pairs(found)
    return pa.table(
        {
            "a": a.astype(np.uint32),
            "b": b.astype(np.uint32),
            "similarity": agreements / slots.shape[1],
        }
    )


@check_arguments
def cluster_ids(
    signatures: Any, threshold: float = 0.8, *, num_bands: int = NUM_BANDS
) -> pa.UInt32Array:
    """Returns the number of the first row of the cluster of each row.

    Rows are in one cluster if pairs that reach the threshold connect them, also through other rows.
    So a row is the one to keep if it has its own number.

    Args:
        signatures: Signatures, fixed_size_list<uint16> (n,) or uint16 (n, k).
        threshold: Minimum estimated similarity of a pair, in (0, 1].
        num_bands: Number of bands, 1 to 256, which divides the number of values of a signature.

    Returns:
        uint32 (n,). It is null for a null.

    Raises:
        UsageError: If the values are not signatures, or a number is out of range.

    Examples:
        >>> texts = ["the cat sat on the mat today", "a dog", "the cat sat on the mat", None]
        >>> cluster_ids(minhash(texts), 0.7).to_pylist()
        [0, 1, 0, None]
    """
    slots, has_tokens = _to_slots(signatures)
    parent = np.arange(len(slots), dtype=np.uint32)
    for found in _find_pairs(slots, has_tokens, threshold, num_bands):
        a, b = unpack_pairs(found)
        unite(a.astype(np.uint32), b.astype(np.uint32), parent)
    flatten(parent)
    return pa.array(parent, mask=~has_tokens)


@check_arguments
def read_signatures(dataset: Any, index: str | None = None) -> pa.Table:
    """Returns the signatures that the MinHash index of a Lance table stores.

    Rows that were deleted are left out. So are rows that are not in the index: those without
    tokens, and those that were added since `optimize_indices`.

    Args:
        dataset: The table: a `lance.LanceDataset`, or the path of a local folder.
        index: Name of the index. It is needed only if the table has several MinHash indexes.

    Returns:
        Columns `_rowid`, uint64, the ids of rows in Lance, and `signature`,
        fixed_size_list<uint16>.

    Raises:
        UsageError: If the table cannot be read, has no such index, is a clone, or has signatures of
            another version.
        MissingExtraError: If pylance is not installed.
    """
    if isinstance(dataset, str | Path):
        table = TableFolder(str(dataset), TableFormat.LANCE)
        with table_library_errors(table):
            import lance

            dataset = lance.dataset(str(dataset))
    if not hasattr(dataset, "describe_indices"):
        raise UsageError(
            f"{type_name(dataset)} is not a Lance table; give a lance.LanceDataset, or the path of "
            "a local folder"
        )
    table = TableFolder(str(dataset.uri), TableFormat.LANCE)
    with table_library_errors(table):
        return _read_index(dataset, table, index)


def _read_index(dataset: Any, table: TableFolder, name: str | None) -> pa.Table:
    from lance.file import LanceFileReader

    index = _find_index(dataset, table, name)
    rows = dataset.to_table(columns=[], with_row_id=True, with_row_address=True)
    parts = []
    for segment in index.segments:
        if segment.base_id is not None:
            raise UsageError(
                f"the index {index.name!r} of {table.description} is in the folder of another "
                "table, as those of clones are; read it from that table"
            )
        path = f"{dataset.uri}/_indices/{segment.uuid}/signatures.lance"
        stored = LanceFileReader(path).read_all().to_table()
        parts.append(_select_rows(stored, rows, segment.fragment_ids))
    return pa.concat_tables(parts)


def _select_rows(stored: pa.Table, rows: pa.Table, fragments: set[int]) -> pa.Table:
    """Returns the signatures of a segment whose rows are still in the table."""
    [key] = {"_rowaddr", "_rowid"} & set(stored.column_names)
    fragment = rows["_rowaddr"].to_numpy() >> np.uint64(32)
    rows = rows.filter(pa.array(np.isin(fragment, sorted(fragments)))).sort_by(key)
    known = rows[key].to_numpy()
    is_known = isin_sorted(stored[key].to_numpy(), known)
    positions = np.searchsorted(known, stored[key].to_numpy()[is_known])
    return pa.table(
        {
            "_rowid": rows["_rowid"].take(pa.array(positions)),
            "signature": stored["signature"].filter(pa.array(is_known)),
        }
    )


def _find_index(dataset: Any, table: TableFolder, name: str | None) -> Any:
    """Returns the description of a MinHash index of a table."""
    indexes = [index for index in dataset.describe_indices() if "MinHash" in index.type_url]
    names = ", ".join(sorted(repr(index.name) for index in indexes))
    if name is not None:
        indexes = [index for index in indexes if index.name == name]
    if not indexes:
        wanted = "MinHash index" if name is None else f"MinHash index {name!r}"
        remedy = (
            f"its MinHash indexes are {names}"
            if names
            else ('create one with dataset.create_scalar_index(COLUMN, "MINHASHLSH")')
        )
        raise UsageError(f"{table.description} has no {wanted}; {remedy}")
    if len(indexes) > 1:
        raise UsageError(f"{table.description} has several MinHash indexes: {names}; give `index`")
    version = indexes[0].details["signature_version"]
    if version != SIGNATURE_VERSION:
        raise UsageError(
            f"the index {indexes[0].name!r} of {table.description} has signatures of version "
            f"{version}, and nearkin reads version {SIGNATURE_VERSION}; upgrade nearkin"
        )
    return indexes[0]


def _find_pairs(
    slots: np.ndarray, has_tokens: np.ndarray, threshold: float, num_bands: int
) -> Iterator[np.ndarray]:
    """Yields packed pairs of rows that reach the threshold, uint64 (m,) each.

    Args:
        slots: Signatures, uint16 (n, k).
        has_tokens: Whether a row is a signature, bool (n,).
    """
    SHARE_ABOVE_0.require("threshold", threshold)
    layout = slot_layout(_rows_of_band(slots, num_bands))
    # The sort is stable, so the first of identical rows comes first, and stands for them.
    hashes = hash_rows(slots.view(np.uint8))
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    order = order[has_tokens[order]]
    is_copy = (hashes[order[1:]] == hashes[order[:-1]]).all(axis=1)
    firsts = np.flatnonzero(np.append(True, ~is_copy))[: len(order)]
    standing_for = np.repeat(order[firsts], np.diff(np.append(firsts, len(order))))
    copies = np.flatnonzero(standing_for != order)
    yield pack_pairs(standing_for[copies], order[copies])

    compared = np.zeros(len(slots), bool)
    compared[order[firsts]] = True
    wide_slots = slots.astype(np.uint32)
    keys = np.empty((num_bands, len(slots)), np.uint64)
    write_band_keys(layout, wide_slots, np.zeros(len(slots), np.uint64), keys)
    agreements = np.arange(slots.shape[1] + 1)
    margin = int(np.flatnonzero(agreements / slots.shape[1] >= threshold)[0])
    histogram = np.zeros(len(agreements), np.int64)
    for band in range(num_bands):
        buckets = find_buckets(keys[band], compared)
        for rows in split_buckets(buckets.starts, buckets.ends, PAIRS_PER_BATCH):
            out = np.empty(rows.pairs, np.uint64)
            count = bucket_pairs(
                buckets.ordinals,
                rows.starts,
                rows.stops,
                rows.ends,
                EVERY_LATER,
                wide_slots,
                NEVER_HOT,
                band,
                layout.layout,
                layout.masks_or_keys,
                margin,
                histogram,
                out,
            )
            yield out[:count].copy()


def _sketch(documents: pa.Array, num_hashes: int, shingle_size: int) -> pa.FixedSizeListArray:
    """Returns the signatures of documents, which are texts or lists of tokens."""
    token_lists = _tokens_of(documents)
    has_tokens = token_lists.value_lengths().to_numpy() > 0
    signatures = np.zeros((len(documents), num_hashes), np.uint16)
    if has_tokens.any():
        hashes, offsets = _hash_shingles(token_lists.filter(pa.array(has_tokens)), shingle_size)
        stream = splitmix64(SEED, 3 * num_hashes)
        a = stream[0 : 2 * num_hashes : 2] | np.uint64(1)
        b = stream[1 : 2 * num_hashes : 2].copy()
        c = stream[2 * num_hashes :] | np.uint64(1)
        out = np.empty((len(offsets) - 1, num_hashes), np.uint16)
        compressed_minhash(hashes, offsets, a, b, c, out)
        signatures[has_tokens] = out
    return _to_array(signatures, has_tokens)


def _tokens_of(documents: pa.Array) -> pa.Array:
    """Returns the tokens of documents, large_list<large_string> (n,)."""
    if is_list(documents.type):
        return documents
    try:
        from lance import tokenize
    except ImportError as error:
        need = "the tokenizer of Lance's index requires pylance"
        raise MissingExtraError.for_extra(need, "lance") from error
    lists = [
        [token.text for token in tokenize(text, stem=False, remove_stop_words=False)]
        for text in documents.to_pylist()
    ]
    return pa.array(lists, pa.large_list(pa.large_string()))


def _hash_shingles(token_lists: pa.Array, shingle_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the hashes of shingles, uint64 (m,), and the first of each document and the end.

    Args:
        token_lists: The tokens, large_list<large_string> (n,), at least one of each document.
    """
    counts = token_lists.value_lengths().to_numpy().astype(np.int64)
    tokens = token_lists.flatten()
    content = SEPARATOR.join(tokens.to_pylist()).encode()
    sizes = pc.binary_length(tokens).to_numpy().astype(np.int64)
    token_ends = np.cumsum(sizes + 1) - 1
    token_starts = token_ends - sizes
    window = np.minimum(counts, min(shingle_size, len(tokens)))
    shingle_counts = counts - window + 1
    offsets = np.concatenate([[0], np.cumsum(shingle_counts)])
    first_tokens = np.cumsum(counts) - counts
    document = np.repeat(np.arange(len(counts)), shingle_counts)
    starts = first_tokens[document] + np.arange(len(document)) - offsets[document]
    ends = starts + window[document] - 1
    data = np.frombuffer(content or b"\0", np.uint8).copy()
    return _hash_slices(data, token_starts[starts], token_ends[ends]), offsets


def _hash_slices(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Returns the XXH64 of slices of bytes with the seed of Lance, uint64 (n,)."""
    out = np.empty(len(starts), np.uint64)
    xxh64_each(data, starts, ends, np.uint64(SEED), out)
    return out


def _to_slots(signatures: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns signatures as uint16 (n, k), with zeros for nulls, and which are valid, bool (n,)."""
    column = to_chunked(signatures)
    kind = column.type
    is_signature = pa.types.is_fixed_size_list(kind) and pa.types.is_uint16(kind.value_type)
    if not is_signature or kind.list_size == 0:
        raise UsageError(
            f"values of type {kind} are not signatures of Lance, which are "
            "fixed_size_list<uint16>; make them with nearkin.lance.minhash"
        )
    valid = column.is_valid().to_numpy()
    values = pa.chunked_array([chunk.flatten() for chunk in column.chunks], kind.value_type)
    if values.null_count:
        raise UsageError("a signature contains a null; remove such rows first")
    slots = np.zeros((len(column), kind.list_size), np.uint16)
    slots[valid] = values.to_numpy().reshape(-1, kind.list_size)
    return slots, valid


def _to_array(values: np.ndarray, valid: np.ndarray) -> pa.FixedSizeListArray:
    """Returns rows as lists of fixed size, with nulls where they are not valid."""
    return pa.FixedSizeListArray.from_arrays(
        pa.array(values.reshape(-1)), values.shape[1], mask=pa.array(~valid)
    )


def _rows_of_band(slots: np.ndarray, num_bands: int) -> int:
    """Returns the number of values of a band."""
    NumberRange(1, MAX_NUM_BANDS).require("num_bands", num_bands)
    rows, rest = divmod(slots.shape[1], num_bands)
    if rest or not rows:
        raise UsageError(
            f"num_bands={num_bands} does not divide the {slots.shape[1]} values of a signature; "
            "use the number of the index"
        )
    return rows
