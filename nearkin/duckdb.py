"""SQL functions for DuckDB: signatures, band keys, similarities, deduplication and pairs.

`register` adds them to a connection. It needs the extra `duckdb`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Columns
from nearkin.engine.keywords import RunParameters
from nearkin.engine.options import RunOptions
from nearkin.engine.parameter_help import show_parameters
from nearkin.engine.parameters import make_run_options, resources_of, spec_of
from nearkin.engine.settings_file import Settings
from nearkin.errors import MissingExtraError, UsageError
from nearkin.integrations.text_columns import TextColumns
from nearkin.runs.api import dedup, pairs
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.setting_names import name_setting
from nearkin.stages.cluster.id_order import sort_ids
from nearkin.stages.measures import BandingRequest
from nearkin.stages.measures.compared_sets import compares_sets

try:
    import duckdb
except ImportError as error:
    raise MissingExtraError.for_extra("nearkin.duckdb requires duckdb", "duckdb") from error

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COLUMNS_OF_RUNS = ("text", "tokens", "vector", "fingerprint")
"""The parameters of runs that name columns of documents."""
FURTHER_COLUMNS = ("same", "url", "block_by", "across", "source", "split")
"""The parameters of runs that name further columns."""
DOCUMENTS = "STRUCT(id VARCHAR, text VARCHAR)[]"
"""The type of the rows of a table that a table function reads."""
CLUSTERS = pa.schema(
    [
        ("id", pa.string()),
        ("cluster", pa.string()),
        ("kept", pa.bool_()),
        ("similarity", pa.float64()),
        ("kind", pa.string()),
    ]
)
"""The columns of `nk_dedup`."""
PAIRS = pa.schema([("id_a", pa.string()), ("id_b", pa.string()), ("similarity", pa.float64())])
"""The columns of `nk_pairs`."""
SQL_TYPES = {pa.string(): "VARCHAR", pa.bool_(): "BOOLEAN", pa.float64(): "DOUBLE"}
"""The SQL types of these columns."""
TABLE_FUNCTION = """
CREATE OR REPLACE TEMP MACRO {name}(documents, id := 'id', text := 'text') AS TABLE
SELECT unnest({name}_of_list(list(struct_pack(
    id := CAST(struct_extract(document, id) AS VARCHAR),
    text := CAST(struct_extract(document, text) AS VARCHAR)
))), recursive := true)
FROM query_table(documents) AS document
"""
"""A table function. DuckDB calls Python for values and not for tables, so the rows of the table are
passed as one list."""
KEYED_DOCUMENTS = """
CREATE OR REPLACE TEMP MACRO nk_keyed_documents(documents, id := 'id', text := 'text') AS TABLE
SELECT name, content, unnest(keys) AS key, generate_subscripts(keys, 1) AS band
FROM (
    SELECT
        CAST(struct_extract(document, id) AS VARCHAR) AS name,
        CAST(struct_extract(document, text) AS VARCHAR) AS content,
        nk_band_keys(CAST(struct_extract(document, text) AS VARCHAR)) AS keys
    FROM query_table(documents) AS document
    WHERE struct_extract(document, id) IS NOT NULL
)
"""
"""The documents of a table that have an id, once for each band. A name of a parameter would be
replaced anywhere in the macro, so the columns have other names."""
LSH_JOIN = """
CREATE OR REPLACE TEMP MACRO nk_lsh_join(first, second, id := 'id', text := 'text') AS TABLE
SELECT id_a, id_b, similarity
FROM (
    SELECT id_a, id_b, nk_jaccard(text_a, text_b) AS similarity
    FROM (
        SELECT DISTINCT a.name AS id_a, b.name AS id_b, a.content AS text_a, b.content AS text_b
        FROM nk_keyed_documents(first, id := id, text := text) AS a
        JOIN nk_keyed_documents(second, id := id, text := text) AS b
        ON a.band = b.band AND a.key = b.key
    )
)
WHERE similarity >= {threshold}
"""
"""The join of documents that share a band key, with their exact similarity."""
NO_LSH_JOIN = """
CREATE OR REPLACE TEMP MACRO nk_lsh_join(first, second, id := 'id', text := 'text') AS TABLE
SELECT error('nk_lsh_join compares by a threshold, and these functions were registered with a '
    || 'condition; use nk_dedup or nk_pairs, or register them with a threshold') AS id_a
"""
"""The join if a condition takes the place of the threshold."""


@show_parameters
@check_arguments
def register(connection: Any, **parameters: Unpack[RunParameters]) -> None:
    """Adds the functions of nearkin to a connection of DuckDB.

    Functions of values, which return null for null:

    - `nk_minhash(text)`: the signature, UINTEGER[].
    - `nk_simhash(text)`: the SimHash of 64 bits, UBIGINT.
    - `nk_band_keys(text)`: the band keys, UBIGINT[]. Near-duplicates share one at a position.
    - `nk_jaccard(a, b)`: the exact similarity of two texts, DOUBLE.
    - `nk_containment(a, b)`: the share of a's shingles that b contains, DOUBLE.

    Functions of tables, which take the name of a table or view, and perhaps the names of its
    columns, `id := 'id'` and `text := 'text'`. They read the whole table into memory:

    - `nk_dedup(documents)`: a row for each document: id, cluster (the id of the kept document),
      kept, similarity and kind, as in `nearkin.dedup` of the rows in the order of their ids.
    - `nk_pairs(documents)`: the pairs of near-duplicates: id_a, id_b and similarity.
    - `nk_lsh_join(first, second)`: the pairs of near-duplicates between two tables, as a join of
      band keys in SQL. DuckDB executes it in parallel and beyond memory. Only the Spec, the
      threshold and the bands decide which pairs it has, so it fails with `accept` and `max_lost`.

    Args:
        connection: The connection, of `duckdb.connect`.
        **parameters: The Spec, the threshold and further options of `nearkin.dedup` and
            `nearkin.pairs`.

    Raises:
        UsageError: If a parameter is unknown or out of range, names a column, or the measure does
            not compare sets of shingles.

    Examples:
        >>> import duckdb
        >>> connection = duckdb.connect()
        >>> register(connection, threshold=0.7)
        >>> connection.sql("SELECT nk_jaccard('a b c d e', 'a b c d e f') AS similarity").fetchall()
        [(0.75,)]
        >>> _ = connection.sql('''CREATE TABLE docs AS FROM (VALUES
        ...     (1, 'the cat sat on the mat'), (2, 'the cat sat on the mat now'), (3, 'a dog')
        ... ) AS t(id, text)''')
        >>> connection.sql("FROM nk_pairs('docs')").fetchall()
        [('1', '2', 0.8)]
        >>> connection.sql("FROM nk_lsh_join('docs', 'docs') WHERE id_a < id_b").fetchall()
        [('1', '2', 0.8)]
    """
    if not isinstance(connection, duckdb.DuckDBPyConnection):
        raise UsageError(
            f"connection={connection!r} is not a connection of DuckDB; pass duckdb.connect()"
        )
    functions = _Functions.from_parameters(parameters)
    for name, function, arguments, returned in (
        ("nk_minhash", functions.minhash, ["VARCHAR"], "UINTEGER[]"),
        ("nk_simhash", functions.simhash, ["VARCHAR"], "UBIGINT"),
        ("nk_band_keys", functions.band_keys, ["VARCHAR"], "UBIGINT[]"),
        ("nk_jaccard", functions.columns.compare, ["VARCHAR", "VARCHAR"], "DOUBLE"),
        ("nk_containment", functions.columns.containment, ["VARCHAR", "VARCHAR"], "DOUBLE"),
        ("nk_dedup_of_list", functions.dedup, [DOCUMENTS], _list_type(CLUSTERS)),
        ("nk_pairs_of_list", functions.pairs, [DOCUMENTS], _list_type(PAIRS)),
    ):
        _create_function(connection, name, function, arguments, returned)
    for name in ("nk_dedup", "nk_pairs"):
        connection.execute(TABLE_FUNCTION.format(name=name))
    connection.execute(KEYED_DOCUMENTS)
    if functions.options.acceptance is None:
        connection.execute(LSH_JOIN.format(threshold=functions.options.threshold))
    else:
        connection.execute(NO_LSH_JOIN)


@dataclass(frozen=True)
class _Functions:
    """The functions of one registration, from Arrow columns to an Arrow column.

    Attributes:
        parameters: The parameters of runs.
        options: The options of runs, with the Spec.
        columns: The functions of texts of the Spec.
        simhashes: The functions of texts with the same shingles and a SimHash of 64 bits.
    """

    parameters: RunParameters
    options: RunOptions
    columns: TextColumns
    simhashes: TextColumns

    @classmethod
    def from_parameters(cls, parameters: RunParameters) -> "_Functions":
        """Returns the functions for the parameters of a run."""
        for name in COLUMNS_OF_RUNS:
            if parameters.get(name) is not None:
                value: Any = parameters.get(name)
                raise UsageError(
                    f"{name_setting(name, value)} names a column, and SQL functions get the names "
                    "of columns in each call, for example nk_dedup('documents', text := 'body'); "
                    "leave it out"
                )
        for name in FURTHER_COLUMNS:
            if parameters.get(name) is not None:
                value = parameters.get(name)
                raise UsageError(
                    f"{name_setting(name, value)} names a column, and SQL functions read ids and "
                    "texts only; leave it out, or pass the table to nearkin.dedup"
                )
        settings = Settings.resolve(parameters.get("settings"), parameters.get("preset"))
        applied = settings.for_dedup().apply_to(parameters)
        spec = spec_of(applied, Columns())
        if not compares_sets(spec.measure):
            raise UsageError(
                f"the SQL functions compare sets of shingles, and "
                f"{name_setting('measure', spec.measure)} does not; use "
                f"{name_setting('measure', 'jaccard')}"
            )
        resources = resources_of(applied)
        of_signs = replace(spec, measure="simhash", scheme="signs", k=64, slot_bits=1)
        return cls(
            parameters,
            make_run_options(spec, applied),
            TextColumns(spec, resources),
            TextColumns(of_signs, resources),
        )

    def minhash(self, texts: pa.ChunkedArray) -> pa.Array:
        return _with_variable_sizes(self.columns.sketch(texts))

    def simhash(self, texts: pa.ChunkedArray) -> pa.Array:
        return pc.list_element(self.simhashes.sketch(texts), 0)

    def band_keys(self, texts: pa.ChunkedArray) -> pa.Array:
        options = self.options
        request = BandingRequest(
            threshold=options.threshold,
            recall=options.recall,
            bands=options.bands,
            rows=options.rows,
        )
        return _with_variable_sizes(self.columns.keys_of_banding(texts, request))

    def dedup(self, tables: pa.ChunkedArray) -> pa.Array:
        return _apply_to_tables(
            tables,
            lambda table: dedup(table, id="id", **self.parameters).clusters.arrow,
            CLUSTERS,
        )

    def pairs(self, tables: pa.ChunkedArray) -> pa.Array:
        return _apply_to_tables(
            tables, lambda table: pairs(table, id="id", **self.parameters).pairs.arrow, PAIRS
        )


def _create_function(
    connection: "DuckDBPyConnection",
    name: str,
    function: Callable[..., pa.Array],
    arguments: list[str],
    returned: str,
) -> None:
    """Adds a function to a connection, in place of one of an earlier registration."""
    with suppress(duckdb.InvalidInputException):
        connection.remove_function(name)
    connection.create_function(
        name, function, arguments, returned, type="arrow", null_handling="special"
    )


def _list_type(columns: pa.Schema) -> str:
    """Returns the SQL type of a list of rows."""
    fields = ", ".join(f"{field.name} {SQL_TYPES[field.type]}" for field in columns)
    return f"STRUCT({fields})[]"


def _with_variable_sizes(lists: pa.FixedSizeListArray) -> pa.Array:
    """Returns lists of one size as lists of any size."""
    return lists.cast(pa.list_(lists.type.value_type))


def _apply_to_tables(
    tables: pa.ChunkedArray, function: Callable[[pa.Table], pa.Table], columns: pa.Schema
) -> pa.Array:
    """Returns the result of each table, whose rows are passed in the order of their ids.

    A table is a list of its rows. Null has no rows.
    """
    parts = [columns.empty_table()]
    offsets = [0]
    for rows in tables:
        if rows.is_valid:
            documents = pa.Table.from_struct_array(rows.values)
            ids = documents["id"].cast(pa.large_string())
            table = function(documents.take(pa.array(sort_ids(ids))))
            parts.append(table.select(columns.names).cast(columns))
        offsets.append(sum(part.num_rows for part in parts))
    rows_of_all = pa.concat_tables(parts).combine_chunks().to_struct_array().combine_chunks()
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), rows_of_all)
