"""The facts of the column chunks of a parquet file, from its footer.

pyarrow ends the process, in place of an exception, if it is asked for a chunk whose facts
contradict each other, for example in a damaged file. So they are looked at before.
"""

import io
from functools import cached_property, lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.corpus.formats.parquet_footers import (
    CHUNK_METADATA,
    CHUNKS,
    ROW_GROUPS,
    Struct,
    read_footer,
)

ENCRYPTION = 8
"""The field of a column chunk whose metadata is encrypted."""
SIZE_STATISTICS = 16
"""The field of the metadata of a column chunk with the numbers of its levels and bytes."""
CODEC = 4
"""The field of this metadata with the number of the codec."""
LAST_CODEC = 7
"""The largest number of a codec. None is negative."""
BYTES = 1
REPETITION_LEVELS = 2
DEFINITION_LEVELS = 3
"""Fields of these statistics."""


REMEMBERED = 4
"""The number of footers whose faults are remembered, because each part of a file is read apart."""


class ColumnChunks:
    """The column chunks of the row groups of a file."""

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._metadata = metadata

    def of_group(self, group: int) -> list[pq.ColumnChunkMetaData]:
        """Returns the column chunks of a row group, or raises ValueError if one cannot be read."""
        if fault := self._faults.get(group):
            raise ValueError(fault)
        facts = self._metadata.row_group(group)
        return [facts.column(number) for number in range(facts.num_columns)]

    def of_first_group(self) -> tuple[int, list[pq.ColumnChunkMetaData]]:
        """Returns the rows and the column chunks of the first row group that can be read."""
        for group in range(self._metadata.num_row_groups):
            if group not in self._faults:
                return self._metadata.row_group(group).num_rows, self.of_group(group)
        return 0, []

    @cached_property
    def _faults(self) -> dict[int, str]:
        # written again by pyarrow, so that it is complete and has the fields that pyarrow has read
        sink = pa.BufferOutputStream()
        self._metadata.write_metadata_file(sink)
        return _find_faults(sink.getvalue().to_pybytes())


@lru_cache(maxsize=REMEMBERED)
def _find_faults(file: bytes) -> dict[int, str]:
    """Returns what is wrong with row groups, by number, of a file that consists of a footer."""
    schema = pq.read_metadata(pa.BufferReader(file)).schema
    _, footer = read_footer(io.BytesIO(file))
    faults = {}
    for number, group in enumerate(footer[ROW_GROUPS].value.value):
        for place, chunk in enumerate(group[CHUNKS].value.value):
            if fault := _find_fault(chunk, schema.column(place)):
                faults[number] = fault
                break
    return faults


def _find_fault(chunk: Struct, column: pq.ColumnSchema) -> str | None:
    if ENCRYPTION in chunk:
        return f"the column {column.path!r} is encrypted"
    metadata: Struct = chunk[CHUNK_METADATA].value
    if not 0 <= metadata[CODEC].value <= LAST_CODEC:
        return f"the footer has an unknown codec of {column.path!r}"
    if SIZE_STATISTICS not in metadata:
        return None
    sizes: Struct = metadata[SIZE_STATISTICS].value
    levels = {
        REPETITION_LEVELS: column.max_repetition_level,
        DEFINITION_LEVELS: column.max_definition_level,
    }
    is_sound = BYTES not in sizes or column.physical_type == "BYTE_ARRAY"
    for field, highest in levels.items():
        counts = sizes[field].value.value if field in sizes else []
        is_sound &= len(counts) in (0, highest + 1)
    return None if is_sound else f"the footer has wrong statistics of the sizes of {column.path!r}"
