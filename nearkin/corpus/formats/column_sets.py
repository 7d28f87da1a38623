"""Columns of a file that are decoded one set after another, because they need too much memory.

The rows of all sets but the last one wait in temporary files. The files are mapped, so that
dictionaries of many columns are not in memory together.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from nearkin.corpus.encoded_columns import shares_values
from nearkin.corpus.formats.base import ItemsBeforeDamage
from nearkin.runtime.files import disk_errors
from nearkin.runtime.temporary_folder import TemporaryFolder


def divide_columns(sizes: dict[str, int], limit: int) -> list[list[str]]:
    """Divides columns into sets that take at most a number of bytes each.

    A column that takes more is a set of its own.

    Examples:
        >>> divide_columns({"a": 3, "b": 2, "c": 4, "d": 9}, limit=5)
        [['a', 'b'], ['c'], ['d']]
    """
    sets: list[list[str]] = []
    left = 0
    for name, size in sizes.items():
        if not sets or size > left:
            sets.append([])
            left = limit
        sets[-1].append(name)
        left -= size
    return sets


def decode_in_turn(
    sets: Sequence[Iterator[pa.RecordBatch]], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yields rows with the columns of all sets, of which one is decoded after another.

    If a set is damaged, the error follows after the rows before the damage.

    Args:
        names: The names of the columns in the order of the file.
    """
    with disk_errors(Path(tempfile.gettempdir())):
        temporary = TemporaryFolder()
    with temporary as folder:
        waiting = [_wait(batches, folder / f"{at}") for at, batches in enumerate(sets[:-1])]
        streams = [*waiting, sets[-1]]
        # The first batch of a set follows after all rows of the set before wait in its file.
        heads = [next(stream, None) for stream in streams]
        while all(head is not None for head in heads):
            batches = [head for head in heads if head is not None]
            count = min(len(batch) for batch in batches)
            yield _join([batch.slice(0, count) for batch in batches], names)
            heads = [
                batch.slice(count) if len(batch) > count else next(stream, None)
                for batch, stream in zip(batches, streams, strict=True)
            ]


def _wait(batches: Iterator[pa.RecordBatch], path: Path) -> Iterator[pa.RecordBatch]:
    """Writes batches to a file when the first one is needed, and reads them from there."""
    read = ItemsBeforeDamage(batches)
    with disk_errors(path.parent):
        _write(read, path)
    if path.stat().st_size:
        with pa.memory_map(str(path)) as file:
            yield from pa.ipc.open_stream(file)
    read.raise_damage()


def _write(batches: Iterable[pa.RecordBatch], path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, ExitStack() as stack:
        writer = None
        for batch in batches:
            if writer is None:
                # Dictionaries are only mapped if they are not compressed.
                has_dictionaries = any(shares_values(kind) for kind in batch.schema.types)
                options = pa.ipc.IpcWriteOptions(compression=None if has_dictionaries else "lz4")
                writer = stack.enter_context(pa.ipc.new_stream(file, batch.schema, options=options))
            writer.write_batch(batch)


def _join(batches: Sequence[pa.RecordBatch], names: Sequence[str]) -> pa.RecordBatch:
    """Returns equally many rows of several sets as one batch."""
    columns = {
        name: iter(batch.schema.get_all_field_indices(name))
        for batch in batches
        for name in batch.schema.names
    }
    owners = {name: batch for batch in batches for name in batch.schema.names}
    places = [(owners[name], next(columns[name])) for name in names]
    fields = [batch.schema.field(at) for batch, at in places]
    return pa.RecordBatch.from_arrays(
        [batch.column(at) for batch, at in places], schema=pa.schema(fields)
    )
