"""Conversion of tables and columns of other libraries to Arrow.

Lists, iterators, Arrow, pandas, polars, datasets and numpy are supported. Values that are in Arrow
already do not become Python strings.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.checked_column import CheckedColumn
from nearkin.corpus.encoded_columns import remove_encoding
from nearkin.corpus.foreign_errors import RUST_PLACE
from nearkin.corpus.iceberg_tables import open_scan
from nearkin.corpus.integers import concat_tables, convert_values
from nearkin.corpus.lance_tables import require_readable_names
from nearkin.corpus.untrusted_batches import find_damage
from nearkin.corpus.validation import check_texts, check_tokens, check_vectors
from nearkin.errors import UsageError
from nearkin.runtime.arrow_types import (
    invalid_text,
    is_binary,
    is_encoded,
    is_list,
    is_text,
    replace_views_in_type,
)
from nearkin.runtime.suggestions import describe_columns

TABLES = (
    "an Arrow table or stream of any library, a pandas or Polars frame, a dataset of datasets, "
    "pyarrow or Lance, a table of pyiceberg, a mapping of columns, a list or iterator of texts or "
    "of dictionaries, or a matrix of vectors"
)
"""The kinds of tables that `to_table` accepts, for messages."""
COLUMNS = "a list, an Arrow array, a series or a dataset's column"
"""The kinds of columns that `to_chunked` accepts, for messages."""
MAX_NESTING = 64
"""The largest depth of lists and dictionaries in the values of a column."""
IN_MEMORY = frozenset({"arro3", "cudf", "nearkin", "numpy", "pandas", "polars"})
"""The packages whose tables and columns are values, except for lazy frames and iterators."""
FOREIGN_TYPES = frozenset({"Int128", "Object", "UInt128"})
"""The types of Polars that Arrow does not have."""
ITERATOR_BLOCK = 8192
"""The number of values of an iterator that are Python objects at a time."""


def to_table(data: Any) -> pa.Table:
    """Returns an Arrow table.

    It is made of a table or stream of batches of any library with the Arrow interface (DuckDB,
    ibis, nanoarrow, pyarrow and others), a data frame (pandas, polars, also lazy), a dataset of
    `datasets`, `pyarrow.dataset` or Lance, a table of pyiceberg, a mapping of columns, a list or an
    iterator of texts or of dictionaries, or a matrix (n, d) of vectors.

    Examples:
        >>> to_table(["one", "two"]).column_names
        ['text']
        >>> to_table([{"id": 1, "text": "one"}, {"id": 2, "text": "two"}]).num_rows
        2
    """
    table = _to_table(data)
    _require_sound(table.to_batches())
    return replace_views(table)


def _require_sound(batches: Iterable[pa.RecordBatch]) -> None:
    """Requires that the values of batches can be looked at.

    Arrow does not check what it is given.
    """
    first = 0
    for batch in batches:
        damage = find_damage(batch)
        if damage is not None:
            raise UsageError(
                f"rows {first} to {first + len(batch) - 1} are damaged Arrow data: {damage}; make "
                "them again with the library that they come from"
            )
        first += len(batch)


def replace_views(table: pa.Table) -> pa.Table:
    """Returns a table with plain text in place of views of text, also inside lists and structs.

    polars produces views, and Arrow cannot filter them. Other columns are not cast, because a cast
    of a slice of a run-end encoded column returns the values of other rows.
    """
    for position, field in enumerate(table.schema):
        plain = field.with_type(replace_views_in_type(field.type))
        if plain != field:
            table = table.set_column(position, plain, table.column(position).cast(plain.type))
    return table


def _to_table(data: Any) -> pa.Table:
    refuse_distributed(data)
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if is_lazy_frame(data):
        return _to_table(data.collect())
    if is_polars(data):
        data = _without_foreign_types(data)
        if isinstance(data, pa.Table):
            return data
    if _is_dataset(data):
        return _dataset_to_table(data)
    if isinstance(data, Mapping):
        return _mapping_to_table(data)
    if is_pandas(data) and hasattr(data, "columns"):
        return _pandas_to_table(data)
    if is_stream(data):
        column = _import_stream(data)
        if pa.types.is_struct(column.type):
            return pa.Table.from_struct_array(column)
        data = column
    if isinstance(data, Iterable) and not isinstance(data, Sized):
        return _iterator_to_table(iter(data))
    if isinstance(data, list | tuple):
        refuse_paths(data)
        return _values_to_table(data)
    if not _is_column(data):
        raise UsageError(f"{type_name(data)} is not a table; give {TABLES}")
    return pa.table({"vector" if _is_matrix(data) else "text": _to_chunked(data)})


def _values_to_table(values: Sequence[Any]) -> pa.Table:
    if _are_rows(values):
        return pa.Table.from_struct_array(_to_chunked(values))
    return pa.table({"text": _to_chunked(values)})


def _are_rows(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, Mapping) for value in values)


def _import_stream(data: Any) -> pa.ChunkedArray:
    """Returns the rows of a table, or the values of a column, that has an Arrow interface."""
    if _is_lance_dataset(data):
        require_readable_names(data)
    try:
        source = _open_source(data)
        if hasattr(source, "__arrow_c_stream__"):
            return pa.chunked_array(source)
        return pa.chunked_array([pa.array(source)])
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable_rows(data, error) from error


def _open_source(data: Any) -> Any:
    """Returns the reader of a dataset or of a table of pyiceberg, and other objects as they are."""
    if _is_arrow_dataset(data):
        scanner = data.scanner() if hasattr(data, "scanner") else data
        return scanner.to_reader()
    if _is_iceberg(data):
        return open_scan(data.scan() if hasattr(data, "scan") else data)
    return data


def _unreadable_rows(data: Any, error: Exception) -> UsageError:
    lines = str(error).partition(". Detail: ")[0].strip().splitlines()
    reason = RUST_PLACE.sub("", lines[0])[:300] if lines else type(error).__name__
    return UsageError(
        f"cannot read the rows of {type_name(data)}: {reason}; correct its source, or cast or drop "
        "a column of a type that Arrow does not have"
    )


def _pandas_to_table(frame: Any) -> pa.Table:
    """Returns the table of a pandas frame, without its index."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except UnicodeEncodeError as error:
        raise invalid_text(error) from error
    except (OverflowError, pa.ArrowInvalid) as error:
        return _with_large_integers(frame, error)
    except pa.ArrowException as error:
        raise _unknown_column_type(error) from error
    except ValueError as error:
        raise _unreadable_table(error) from error


def _with_large_integers(frame: Any, error: Exception) -> pa.Table:
    """Returns the table of a pandas frame, of which a column may have integers that do not fit."""
    large = {}
    others = frame.copy(deep=False)
    for position, name in enumerate(frame.columns):
        try:
            pa.array(frame[name], from_pandas=True)
        except (OverflowError, pa.ArrowInvalid):
            try:
                large[position] = convert_values(frame[name].tolist())
            except pa.ArrowException:
                raise UsageError(
                    f"column {name!r} has values of types that have no common Arrow type; cast it "
                    f"to one, for example with frame[{name!r}].astype(str), or drop it"
                ) from error
            others[name] = 0
    if not large:
        raise _unknown_column_type(error) from error
    table = _pandas_to_table(others)
    for position, column in large.items():
        table = table.set_column(position, table.column_names[position], column)
    return table


def _without_foreign_types(data: Any) -> Any:
    """Returns a frame or series of Polars, as Arrow if it has values of a type that Arrow has not.

    Such values are Python objects, which Polars exports as their addresses, and integers of 128
    bits. They become what Python values of a list become.
    """
    schema = getattr(data, "schema", None)
    try:
        if schema is None:
            is_foreign = hasattr(data, "dtype") and not _is_arrow_type(data.dtype)
            return convert_values(data.to_list()) if is_foreign else data
        foreign = {
            name: convert_values(data[name].to_list())
            for name, kind in schema.items()
            if not _is_arrow_type(kind)
        }
    except (pa.ArrowException, OverflowError) as error:
        raise _unknown_column_type(error) from error
    if not foreign:
        return data
    columns = {name: foreign.get(name, data[name]) for name in schema}
    return pa.table({name: to_chunked(column) for name, column in columns.items()})


def _is_arrow_type(kind: Any) -> bool:
    """Returns whether Arrow has a type of Polars, and those inside of it."""
    if hasattr(kind, "fields"):
        return all(_is_arrow_type(field.dtype) for field in kind.fields)
    if hasattr(kind, "inner"):
        return _is_arrow_type(kind.inner)
    return str(kind) not in FOREIGN_TYPES


def _unknown_column_type(error: Exception) -> UsageError:
    reason = "; ".join(map(str, error.args))
    return UsageError(
        f"the table has a column of a type that Arrow does not have ({reason}); cast or drop it"
    )


def _unreadable_table(error: ValueError) -> UsageError:
    return UsageError(f"the table cannot become an Arrow table: {error}")


def _iterator_to_table(values: Iterator[Any]) -> pa.Table:
    """Returns the table of an iterator of texts or of dictionaries.

    Its values become Arrow columns in blocks, so that few of them are Python objects at a time.
    """
    block = list(itertools.islice(values, ITERATOR_BLOCK))
    # A later block may be short, and its texts may be names of files by chance.
    refuse_paths(block)
    are_rows = _are_rows(block)
    blocks = [_values_to_table(block)]
    while block := list(itertools.islice(values, ITERATOR_BLOCK)):
        if _are_rows(block) != are_rows:
            raise UsageError(
                "the values are not of one Arrow type: some are dictionaries and others are not; "
                "give either dictionaries or texts"
            )
        blocks.append(_values_to_table(block))
    return _concat_blocks(blocks)


def _concat_blocks(blocks: list[pa.Table]) -> pa.Table:
    try:
        return concat_tables(blocks)
    except pa.ArrowException as error:
        raise UsageError(f"the values are not of one Arrow type: {error}") from error


def type_name(data: object) -> str:
    """Returns the name of the type of an object, with its module unless it is built in."""
    kind = type(data)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def is_pandas(data: object) -> bool:
    """Returns True for an object of pandas, without importing it."""
    return type(data).__module__.partition(".")[0] == "pandas"


def is_polars(data: object) -> bool:
    """Returns True for an object of Polars, without importing it."""
    return type(data).__module__.partition(".")[0] == "polars"


def is_lazy_frame(data: object) -> bool:
    """Returns True for a lazy frame of Polars."""
    return is_polars(data) and type(data).__name__ == "LazyFrame"


def is_in_memory(data: object) -> bool:
    """Returns whether each reading of data has the same rows in the same order.

    Lazy frames, queries, streams and other objects that are executed to be read need not.
    """
    if isinstance(data, Iterator) or is_lazy_frame(data):
        return False
    if hasattr(data, "source") and hasattr(data, "column_name"):
        return is_in_memory(data.source)
    if isinstance(data, Mapping):
        return all(map(is_in_memory, data.values()))
    if isinstance(data, Sequence | pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray):
        return True
    if type(data).__module__.partition(".")[0] in IN_MEMORY:
        return True
    if _is_dataset(data):
        return hasattr(data, "__len__")
    return hasattr(data, "__arrow_c_array__")


def is_stream(data: object) -> bool:
    """Returns True for an object whose values are read through an interface of Arrow."""
    return (
        hasattr(data, "__arrow_c_stream__")
        or hasattr(data, "__arrow_c_array__")
        or _is_arrow_dataset(data)
        or _is_iceberg(data)
    )


def _is_arrow_dataset(data: object) -> bool:
    """Returns True for a dataset or scanner of `pyarrow.dataset`, without importing it.

    Datasets of Lance are derived from those of pyarrow.
    """
    modules = {kind.__module__ for kind in type(data).__mro__}
    return not modules.isdisjoint({"pyarrow._dataset", "lance.dataset"}) and (
        hasattr(data, "to_table")
    )


def _is_lance_dataset(data: object) -> bool:
    """Returns True for a dataset of Lance, without importing it. A scanner has no names."""
    return type(data).__module__ == "lance.dataset" and hasattr(data, "uri")


def _is_iceberg(data: object) -> bool:
    """Returns True for a table or a scan of pyiceberg, without importing it."""
    return type(data).__module__ == "pyiceberg.table"


def _is_dataset(data: object) -> bool:
    """Returns True for a dataset of the library `datasets`, or several of them by name."""
    return hasattr(data, "with_format") and hasattr(data, "column_names")


def refuse_distributed(data: object) -> None:
    """Refuses a frame of Spark, which would be collected in the memory of the driver."""
    if type(data).__module__.partition(".")[0] == "pyspark":
        raise UsageError(
            f"{type_name(data)} is distributed over machines, and this function collects its rows "
            "on one; call nearkin.spark.dedup(frame, id=...), whose result has clusters and pairs, "
            "or pass frame.toPandas() if the rows fit into memory"
        )


def refuse_paths(values: Sequence[object], *, reads_files: bool = True) -> None:
    """Refuses strings that all are paths of existing files, which would be taken as texts."""
    if values and all(isinstance(value, str) and os.path.lexists(value) for value in values):
        hint = "read the files first; to take the paths as texts, pass pyarrow.array(paths)"
        if reads_files:
            hint = (
                "to read the files, pass [Path(path) for path in paths]; to compare the paths "
                "themselves as texts, pass a mapping {'text': paths}"
            )
        raise UsageError(
            f"the texts are paths of existing files, for example {values[0]!r}; {hint}"
        )


def _dataset_to_table(data: Any) -> pa.Table:
    if isinstance(data, Mapping):
        splits = ", ".join(map(repr, data))
        raise UsageError(
            f"{type_name(data)} holds several datasets ({splits}); pass one of them, for example "
            f"data[{next(iter(data), 'train')!r}]"
        )
    data = data.with_format("arrow")
    if hasattr(data, "__len__"):
        return pa.table(data[:])
    blocks = [pa.table(block) for block in data.iter(ITERATOR_BLOCK)]
    return _concat_blocks(blocks) if blocks else pa.table({"text": pa.array([], pa.string())})


def _mapping_to_table(data: Mapping[Any, Any]) -> pa.Table:
    executed = [name for name, values in data.items() if not is_in_memory(values)]
    if executed and len(data) > 1:
        raise UsageError(
            f"column {executed[0]!r} is {type_name(data[executed[0]])}, which may have its rows in "
            "another order than the other columns; give one table with all columns"
        )
    columns = {str(name): _to_chunked(values) for name, values in data.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r}: {length}" for name, length in lengths.items())
        raise UsageError(f"the columns have different numbers of rows ({shown})")
    return pa.table(columns)


def _is_column(values: Any) -> bool:
    """Returns True for a column of any library. A set has no order, and a text is one value."""
    if isinstance(values, str | bytes | bytearray | Mapping | Set):
        return False
    return isinstance(values, Sequence | np.ndarray) or hasattr(values, "__len__")


def _is_matrix(data: Any) -> bool:
    return isinstance(data, np.ndarray) and data.ndim == 2


def to_chunked(values: Any) -> pa.ChunkedArray:
    """Returns a column as an Arrow array in chunks."""
    column = _to_chunked(values)
    _require_sound(pa.record_batch([chunk], ["values"]) for chunk in column.chunks)
    return column


def _to_chunked(values: Any) -> pa.ChunkedArray:
    if is_polars(values):
        values = _without_foreign_types(values)
    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    if hasattr(values, "source") and hasattr(values, "column_name"):
        return to_table(values.source)[values.column_name]
    refuse_distributed(values)
    names = _column_names(values)
    if names is not None:
        return _only_column(values, names)
    if is_stream(values):
        column = _import_stream(values)
        if pa.types.is_struct(column.type):
            return _only_column(pa.Table.from_struct_array(column), column.type.names)
        return column
    if not _is_column(values):
        raise UsageError(f"{type_name(values)} is not a column of texts; give {COLUMNS}")
    if _is_matrix(values) and not values.shape[1]:
        raise UsageError("the rows of the matrix have no columns; give one column or more")
    if isinstance(values, list | tuple):
        _require_shallow(values)
    try:
        if isinstance(values, np.ndarray) and values.dtype.kind == "T":
            # Arrow does not know numpy's texts of any length.
            values = values.astype(object)
        elif isinstance(values, np.ndarray):
            # Arrow has no other byte order than that of the machine.
            values = values.astype(values.dtype.newbyteorder("="), copy=False)
        if _is_matrix(values):
            flat = pa.array(values.reshape(-1))
            array = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        else:
            array = convert_values(values)
    except UnicodeEncodeError as error:
        raise invalid_text(error) from error
    except (pa.ArrowException, TypeError) as error:
        raise UsageError(f"the values are not of one Arrow type: {error}") from error
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _only_column(table: Any, names: Sequence[str]) -> pa.ChunkedArray:
    """Returns the column of a table that has one column, such as the result of a query."""
    if len(names) != 1:
        raise UsageError(
            f"{type_name(table)} is a table, not a column ({describe_columns(names)}); "
            "pass one of its columns"
        )
    return to_table(table).column(0)


def _require_shallow(values: Sequence[Any]) -> None:
    """Requires that values are not nested deeply, because Arrow's conversion is recursive."""
    level: Iterable[Any] = values
    for _ in range(MAX_NESTING):
        containers = [value for value in level if isinstance(value, list | tuple | dict)]
        if not containers:
            return
        level = itertools.chain.from_iterable(
            value.values() if isinstance(value, dict) else value for value in containers
        )
    raise UsageError(f"the values are nested more than {MAX_NESTING} times; give {COLUMNS}")


def _column_names(values: Any) -> list[str] | None:
    if isinstance(values, Mapping):
        return [str(name) for name in values]
    if isinstance(values, pa.Table | pa.RecordBatch):
        return list(values.schema.names)
    names = getattr(values, "columns", None)
    if names is None:
        names = getattr(values, "column_names", None)
    if names is None or callable(names):
        return None
    return [str(name) for name in names]


def to_documents(values: Any) -> list[pa.Array]:
    """Returns the texts or the token lists of a column, in chunks."""
    column = to_chunked(values)
    if is_list(column.type):
        return _check_chunks(column, lambda chunk: check_tokens(chunk, "tokens"))
    return _check_chunks(column, lambda chunk: check_texts(chunk, "text"))


def to_texts(values: Any) -> list[pa.Array]:
    """Returns the texts of a column, in chunks of large_string."""
    column = to_chunked(values)
    kind = decode_column(column).type
    if not (is_text(kind) or is_binary(kind)):
        remedy = "join them" if is_list(kind) else "cast them to texts"
        raise UsageError(f"the values are {kind}, not texts; {remedy}")
    return to_documents(column)


def decode_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column without encoding. A column of the type of nulls is one of texts."""
    if pa.types.is_null(column.type):
        return column.cast(pa.large_string())
    if is_encoded(column.type) and column.num_chunks:
        return pa.chunked_array([remove_encoding(chunk) for chunk in column.chunks])
    return column


def replace_nulls(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column of texts or of lists, in which nulls are empty. Rows keep their numbers."""
    column = decode_column(column)
    kind = column.type
    if not column.null_count or not (is_text(kind) or is_binary(kind) or is_list(kind)):
        return column
    # Arrow has no function that replaces nulls in arrays of these types.
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.large_list(column.type.value_field))
    column = column.cast(replace_views_in_type(column.type))
    empty = pa.scalar([] if is_list(column.type) else "", column.type)
    return pc.coalesce(column, empty)


def to_vectors(values: Any, dimensions: int) -> list[pa.Array]:
    """Returns lists of numbers, or a matrix (n, d), in chunks of type fixed_size_list<float>."""
    return _check_chunks(values, lambda chunk: check_vectors(chunk, "vector", dimensions))


def _check_chunks(values: Any, check: Callable[[pa.Array], CheckedColumn]) -> list[pa.Array]:
    out = []
    first = 0
    for chunk in to_chunked(values).chunks:
        if len(chunk) == 0:
            continue
        checked = check(chunk)
        for at, reason in sorted(checked.reasons.items()):
            raise UsageError(f"row {first + at}: {reason}; remove such rows first")
        out.append(checked.values)
        first += len(chunk)
    return out
