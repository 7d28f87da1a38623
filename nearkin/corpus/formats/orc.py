"""ORC files, which are read in batches of rows."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from nearkin.corpus.columns import BATCH_ROWS, Columns
from nearkin.corpus.encoded_columns import remove_encoding
from nearkin.corpus.formats.base import FileSlice, Reading
from nearkin.corpus.formats.record_batches import (
    ColumnarFormat,
    TableWriter,
    check_stored_batches,
    number_batches,
)
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.untrusted_batches import VALUES_OF_BYTE


class Orc(ColumnarFormat):
    """The format of ORC files. Rows before damage are read."""

    def schema(self, file: InputFile) -> pa.Schema:
        """Returns the stored schema of a file."""
        with file.open() as source:
            return _open_file(source).schema

    def count_rows(self, file: InputFile) -> int:
        """Returns the number of rows of a file."""
        with file.open() as source:
            return int(_open_file(source).nrows)

    def read(self, file: InputFile, reading: Reading) -> Iterator[FileSlice]:
        """Yields the rows of a file in slices, as described in `Format`."""
        with file.open() as source:
            batches = number_batches(_read_batches(source))
            yield from check_stored_batches(batches, reading)

    def writer(self, file: InputFile, columns: Columns, target: str) -> TableWriter:
        """Returns a writer with the schema and the codec of the input."""
        with file.open() as source:
            stripes = _open_file(source)
            schema = stripes.schema
            codec = str(stripes.compression).lower()
        return TableWriter(schema, lambda rows_schema: _OrcWriter(target, codec, rows_schema))


def _open_file(source: Any) -> Any:
    # Few runs read ORC files.
    from pyarrow.orc import ORCFile

    return ORCFile(source)


def _read_batches(source: Any) -> Iterator[pa.RecordBatch]:
    """Yields the rows of an open file.

    A stripe of a few bytes may have any number of rows, so none is decoded as a whole. Only in
    files with several columns of one name, which Arrow does not read in batches, stripes are.
    """
    from pyarrow.dataset import OrcFileFormat

    stripes = _open_file(source)
    names = stripes.schema.names
    if len(set(names)) == len(names):
        fragment = OrcFileFormat().make_fragment(source)
        batches = fragment.to_batches(batch_size=BATCH_ROWS, batch_readahead=1, use_threads=False)
    elif stripes.nrows > BATCH_ROWS + VALUES_OF_BYTE * stripes.content_length:
        raise ValueError(
            f"it claims {stripes.nrows:,} rows in {stripes.content_length:,} bytes, and several "
            "columns have one name"
        )
    else:
        batches = map(stripes.read_stripe, range(stripes.nstripes))
    rows = 0
    for batch in batches:
        rows += len(batch)
        yield batch
    if rows != stripes.nrows:
        raise ValueError(f"the footer states {stripes.nrows} rows, but the stripes have {rows}")


class _OrcWriter:
    """A writer of record batches, in types that ORC has."""

    def __init__(self, target: str, codec: str, schema: pa.Schema) -> None:
        from pyarrow.orc import ORCWriter

        self._schema = pa.schema(
            [field.with_type(_to_orc_type(field.type)) for field in schema], schema.metadata
        )
        self._writer = ORCWriter(target, compression="uncompressed" if codec == "none" else codec)
        self._is_empty = True

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [
            remove_encoding(column).cast(field.type)
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        self._write(pa.record_batch(columns, schema=self._schema))

    def close(self) -> None:
        if self._is_empty:
            self._write(pa.RecordBatch.from_pylist([], self._schema))
        self._writer.close()

    def _write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(pa.Table.from_batches([batch]))
        self._is_empty = False


def _to_orc_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return _to_orc_type(kind.value_type)
    if pa.types.is_unsigned_integer(kind):
        return pa.int64()
    if pa.types.is_map(kind):
        return pa.map_(_to_orc_type(kind.key_type), _to_orc_type(kind.item_type))
    return kind
