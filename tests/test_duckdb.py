"""Tests of the SQL functions in DuckDB."""

from collections.abc import Iterator

import duckdb
import pytest

import nearkin as nk

TEXTS = [
    "the cat sat on the mat",
    "a dog ran over the hill and far away",
    "the cat sat on the mat now",
    None,
    "",
    "The cat sat on the mat!",
    "it's",
]


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connected:
        connected.execute('CREATE TABLE "odd name" (number INTEGER, body VARCHAR)')
        connected.executemany('INSERT INTO "odd name" VALUES (?, ?)', list(enumerate(TEXTS)))
        connected.execute('CREATE VIEW docs AS SELECT number AS id, body AS text FROM "odd name"')
        nk.duckdb.register(connected, threshold=0.7)
        yield connected


def rows_of(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[object, ...]]:
    return connection.sql(query).fetchall()


def test_values_are_those_of_the_library(connection: duckdb.DuckDBPyConnection) -> None:
    rows = rows_of(
        connection, "SELECT text, nk_minhash(text), nk_simhash(text), nk_band_keys(text) FROM docs"
    )
    assert len(rows) == len(TEXTS)
    for text, signature, simhash, keys in rows:
        if text is None:
            assert (signature, simhash, keys) == (None, None, None)
            continue
        assert signature == nk.sketch([text])[0].tolist()
        assert simhash == nk.sketch([text], nk.Spec(measure="simhash"))[0, 0]
        assert all(isinstance(key, int) for key in keys)  # type: ignore[attr-defined]
    shown = rows_of(
        connection,
        "SELECT nk_jaccard(a, b), nk_containment(a, b), nk_jaccard(a, NULL) "
        "FROM (VALUES ('a b c d e', 'a b c d e f')) AS t(a, b)",
    )
    assert shown == [(0.75, 1.0, None)]


def test_table_functions_return_the_rows_of_the_library(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    table = connection.sql(
        "SELECT id::VARCHAR AS id, text FROM docs ORDER BY docs.id"
    ).to_arrow_table()
    clusters = nk.dedup(table, id="id", threshold=0.7).clusters.arrow.to_pylist()
    assert rows_of(connection, "FROM nk_dedup('docs') ORDER BY id") == [
        (row["id"], row["cluster"], row["kept"], row["similarity"], str(row["kind"]))
        for row in sorted(clusters, key=lambda row: row["id"])
    ]
    pairs = nk.pairs(table, id="id", threshold=0.7).pairs.arrow.to_pylist()
    assert pairs
    columns = "\"odd name\"', id := 'number', text := 'body"
    assert rows_of(connection, f"FROM nk_pairs('{columns}')") == [
        (row["id_a"], row["id_b"], row["similarity"]) for row in pairs
    ]


def test_lsh_join_finds_the_pairs_between_two_tables(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    connection.execute("CREATE TABLE new AS SELECT 'n' AS id, 'the cat sat on the mat' AS text")
    assert rows_of(connection, "FROM nk_lsh_join('new', 'docs') ORDER BY ALL") == [
        ("n", "0", 1.0),
        ("n", "2", 0.8),
        ("n", "5", 1.0),
    ]


def test_an_empty_table_has_no_rows(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE nothing (id INTEGER, text VARCHAR)")
    for function in (
        "nk_dedup('nothing')",
        "nk_pairs('nothing')",
        "nk_lsh_join('nothing', 'docs')",
    ):
        assert rows_of(connection, f"FROM {function}") == []


def test_a_second_registration_replaces_the_first(connection: duckdb.DuckDBPyConnection) -> None:
    nk.duckdb.register(connection, threshold=0.95)
    assert rows_of(connection, "FROM nk_pairs('docs')") == [("0", "5", 1.0)]
    assert len(rows_of(connection, "FROM nk_lsh_join('docs', 'docs') WHERE id_a < id_b")) == 1


def test_bands_that_are_given_are_those_of_the_keys(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    nk.duckdb.register(connection, threshold=0.7, bands=40, rows=3)
    assert rows_of(connection, "SELECT len(nk_band_keys('one two three four'))") == [(40,)]


def test_a_join_by_a_condition_says_what_to_use(connection: duckdb.DuckDBPyConnection) -> None:
    nk.duckdb.register(connection, accept="contained")
    assert len(rows_of(connection, "FROM nk_pairs('docs')")) > 0
    with pytest.raises(duckdb.Error, match="registered with a condition; use nk_dedup or nk_pairs"):
        rows_of(connection, "FROM nk_lsh_join('docs', 'docs')")


def test_parameters_without_a_meaning_in_sql_are_refused() -> None:
    with duckdb.connect() as connection:
        with pytest.raises(nk.UsageError, match=r"text='body' names a column.*text := 'body'"):
            nk.duckdb.register(connection, text="body")
        with pytest.raises(nk.UsageError, match="same='link' names a column, and SQL functions"):
            nk.duckdb.register(connection, same="link")
        with pytest.raises(nk.UsageError, match="measure='simhash' does not"):
            nk.duckdb.register(connection, measure="simhash")
    with pytest.raises(nk.UsageError, match=r"pass duckdb.connect\(\)"):
        nk.duckdb.register("docs.db")


def test_rows_without_an_id_are_in_no_result(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("CREATE TABLE nameless AS SELECT NULL AS id, text FROM docs")
    for query in (
        "nk_lsh_join('docs', 'nameless')",
        "nk_pairs('nameless')",
        "nk_dedup('nameless')",
    ):
        assert rows_of(connection, f"FROM {query}") == []


def test_rows_come_in_the_order_of_numeric_ids() -> None:
    connection = duckdb.connect()
    nk.duckdb.register(connection)
    connection.sql("CREATE TABLE docs (id VARCHAR, text VARCHAR)")
    connection.sql("INSERT INTO docs VALUES ('10', 'a b c d'), ('9', 'a b c d'), ('100', 'e f g')")
    rows = connection.sql("SELECT id, kept FROM nk_dedup('docs')").fetchall()
    assert rows == [("9", True), ("10", False), ("100", True)]
