"""The file of saved suites: an Arrow file with a row for each part, and a checksum.

docs/reference/files.md describes the format.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.errors import UsageError
from nearkin.runtime.ipc_messages import MAGIC_BYTES, read_plain_stream
from nearkin.settings.spec import MAX_SHINGLE, Spec
from nearkin.texts.decontamination.suites import (
    ITEM_COLUMNS,
    SuiteFacts,
    Suites,
    run_counts,
    spec_of_words,
)

FACTS = b"nearkin.suites"
VERSION = 1
PARTS = pa.schema(
    [
        ("suite", pa.large_string()),
        ("id", pa.large_string()),
        ("item", pa.int64()),
        ("copies", pa.int64()),
        ("field", pa.large_string()),
        ("words", pa.int64()),
        ("tokens", pa.large_list(pa.uint64())),
        ("fingerprints", pa.large_list(pa.uint64())),
        ("rarity", pa.large_list(pa.float32())),
    ]
)
ROWS_AT_ONCE = 1 << 14
UNREADABLE = (
    OSError,
    KeyError,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
    pa.ArrowException,
)
"""The errors of a damaged file."""


def write_suites(path: Path, suites: Suites) -> None:
    """Writes suites into a file."""
    facts = {
        "version": VERSION,
        "spec": json.loads(suites.spec.to_json()),
        "suites": [list(suite) for suite in suites.suites],
        "fields": list(suites.fields),
        "width": suites.width,
        "fingerprint": suites.fingerprint,
    }
    table = _table_of(suites).replace_schema_metadata({FACTS: json.dumps(facts)})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, ROWS_AT_ONCE)


def _table_of(suites: Suites) -> pa.Table:
    names = pa.array(suites.names, pa.large_string())
    items = suites.items.take(pa.array(suites.part_items))
    words = np.diff(suites.offsets)
    no_words = np.zeros(suites.parts + 1, np.int64)
    tokens = suites.offsets if suites.width is None else no_words
    runs = no_words
    fingerprints = np.empty(0, np.uint64)
    if suites.width is not None and suites.fingerprints is not None:
        counts = run_counts(suites.offsets, suites.width)
        runs = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        fingerprints = suites.fingerprints
    columns = [
        names.take(items["suite"].combine_chunks()),
        items["id"].combine_chunks(),
        pa.array(suites.part_items),
        items["copies"].combine_chunks(),
        pa.array(suites.fields, pa.large_string()).take(pa.array(suites.part_fields)),
        pa.array(words),
        _lists_of(tokens, suites.tokens),
        _lists_of(runs, fingerprints),
        _lists_of(suites.offsets, suites.rarity),
    ]
    return pa.table(columns, schema=PARTS)


def _lists_of(offsets: np.ndarray, values: np.ndarray) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(values))


def is_suites_file(path: Path) -> bool:
    """Returns True if a file was written by `write_suites`. It may be damaged."""
    try:
        with pa.memory_map(str(path)) as source:
            return FACTS in (pa.ipc.open_file(source).schema.metadata or {})
    except (OSError, pa.ArrowException):
        return False


def read_suites(path: Path) -> Suites:
    """Reads and checks a file of suites."""
    try:
        table = _read_table(path)
        table.validate(full=True)
        facts = json.loads((table.schema.metadata or {})[FACTS])
        version = int(facts["version"])
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except UNREADABLE as error:
        reason = " ".join(str(error).split())[:120]
        raise _damaged(path, reason) from error
    if version != VERSION:
        raise UsageError(
            f"{str(path)!r} has version {version} of the file of suites, not {VERSION}; upgrade "
            "nearkin, or build the suites again"
        )
    try:
        suites = _parse(table.combine_chunks(), facts)
    except UNREADABLE as error:
        raise _damaged(path, " ".join(str(error).split())[:120]) from error
    if suites.fingerprint != facts.get("fingerprint"):
        raise _damaged(path, "the checksum does not match")
    return suites


def _read_table(path: Path) -> pa.Table:
    """Reads the table of an Arrow file, which is a stream between a magic word and a footer."""
    with pa.OSFile(str(path)) as source:
        content = source.read_buffer()
    batches = pa.ipc.open_file(content).num_record_batches
    table = read_plain_stream(content.slice(MAGIC_BYTES), PARTS)
    if len(table.to_batches()) > batches:
        raise ValueError("its footer lists fewer record batches than it has")
    return table


def _damaged(path: Path, reason: str) -> UsageError:
    return UsageError(
        f"cannot read the suites {str(path)!r}: {reason}; take the copy of a backup, or build them "
        "again with nearkin decontaminate --build"
    )


def _parse(table: pa.Table, facts: dict[str, Any]) -> Suites:
    columns = [_only_chunk(table[name]) for name in PARTS.names]
    lists = columns[-3:]
    if any(column.null_count for column in (*columns, *(part.flatten() for part in lists))):
        raise ValueError("a value is missing")
    suites = tuple(SuiteFacts(str(name), int(items)) for name, items in facts["suites"])
    names = [suite.name for suite in suites]
    fields = tuple(map(str, facts["fields"]))
    width = None if facts["width"] is None else int(facts["width"])
    words = columns[5].to_numpy()
    numbers = columns[2].to_numpy()
    copies = columns[3].to_numpy()
    part_suites = _positions_in(names, columns[0])
    part_fields = _positions_in(fields, columns[4])
    offsets = np.concatenate([[0], np.cumsum(words)]).astype(np.int64)
    runs = np.zeros(len(words), np.int64)
    if width is not None:
        if not 2 <= width <= MAX_SHINGLE or (words < width).any():
            raise ValueError("a part has fewer words than a fingerprint")
        runs = run_counts(offsets, width)
    steps = np.diff(numbers, prepend=-1)
    firsts = np.flatnonzero(steps)
    sizes = [part.value_lengths().to_numpy() for part in lists]
    expected = [words if width is None else np.zeros(len(words), np.int64), runs, words]
    if (
        not np.isin(steps, (0, 1)).all()
        or (len(steps) and steps[0] != 1)
        or (words < 1).any()
        or (copies < 1).any()
        or any(
            not np.array_equal(size, wanted) for size, wanted in zip(sizes, expected, strict=True)
        )
    ):
        raise ValueError("its rows do not fit together")
    rarity = lists[2].flatten().to_numpy()
    if not ((rarity > 0) & (rarity <= 1)).all():
        raise ValueError("a rarity is not above 0 and at most 1")
    items = pa.table(
        [
            pa.array(part_suites[firsts], pa.int32()),
            columns[1].take(pa.array(firsts)),
            pa.array(copies[firsts]),
        ],
        schema=ITEM_COLUMNS,
    )
    spec = Spec.from_json(json.dumps(facts["spec"]))
    spec_of_same_key = spec_of_words(spec.key_id)
    if spec != replace(spec_of_same_key, unicode=spec.unicode, version=spec.version):
        raise ValueError("the Spec is not one of single words")
    if width is not None and spec.key_id is None:
        raise ValueError("its fingerprints have no key, so anybody could test words against them")
    return Suites(
        spec=spec,
        suites=suites,
        fields=fields,
        items=items,
        part_items=numbers,
        part_fields=part_fields,
        offsets=offsets,
        rarity=rarity,
        tokens=lists[0].flatten().to_numpy(),
        width=width,
        fingerprints=None if width is None else lists[1].flatten().to_numpy(),
    )


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _positions_in(names: Any, values: pa.Array) -> np.ndarray:
    """Returns the position of each value among names, int64."""
    found = pa.compute.index_in(values, pa.array(names, pa.large_string()))
    if found.null_count:
        raise ValueError("a row names an unknown suite or field")
    return np.asarray(found.to_numpy(), np.int64)
