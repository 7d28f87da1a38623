"""Columns inside other columns, and columns of partition folders, in every role and format."""

import json
import random
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import nearkin as nk
from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus, TableCorpus
from nearkin.corpus.columns import ContentField, FieldKind, carried_column_name
from nearkin.corpus.nested_columns import MISSING, derive_columns, find_value, is_column
from nearkin.errors import UsageError
from tests.cli.conftest import run
from tests.corpus.samples import read_file, write_table

BODY = "one two three four five six seven eight nine ten eleven twelve"
CHATS: list[dict[str, Any]] = [
    {
        "id": number,
        "meta": {"lang": "en" if number < 2 else "de", "key": f"k{number}", "score": number * 1.5},
        "messages": [
            {"role": "user", "content": BODY, "ids": [number, 1]},
            {"role": "bot", "content": None if number == 1 else "an answer", "ids": [2]},
        ],
    }
    for number in range(3)
] + [{"id": 3, "meta": {"lang": None, "key": "k3", "score": None}, "messages": []}]
TABLE = pa.Table.from_pylist(CHATS)
COLUMNS = Columns(
    text="messages.content",
    id="meta.key",
    carried_columns=("meta.lang", "meta.score", "messages.role", "messages.ids"),
)
TEXTS = [f"{BODY}\nan answer", BODY, f"{BODY}\nan answer"]
MESSAGE = {
    "type": "record",
    "name": "message",
    "fields": [
        {"name": "role", "type": "string"},
        {"name": "content", "type": ["null", "string"]},
        {"name": "ids", "type": {"type": "array", "items": "long"}},
    ],
}
META = {
    "type": "record",
    "name": "about",
    "fields": [
        {"name": "lang", "type": ["null", "string"]},
        {"name": "key", "type": "string"},
        {"name": "score", "type": ["null", "double"]},
    ],
}
AVRO = {
    "type": "record",
    "name": "chat",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "meta", "type": META},
        {"name": "messages", "type": {"type": "array", "items": MESSAGE}},
    ],
}
SUFFIXES = (".parquet", ".arrow", ".orc", ".avro", ".jsonl", ".json")


def write_chats(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet":
            pq.write_table(TABLE, path)
        case ".arrow":
            pa.feather.write_feather(TABLE, path)
        case ".orc":
            orc.write_table(TABLE, path)
        case ".avro":
            with path.open("wb") as file:
                fastavro.writer(file, AVRO, CHATS)
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in CHATS))
        case _:
            path.write_text(json.dumps(CHATS, indent=1))
    return path


def read_documents(corpus: FileCorpus | TableCorpus, columns: Columns) -> dict[str, list[Any]]:
    corpus.check(columns)
    tables = [pa.Table.from_batches([batch.documents]) for batch in corpus.batches(columns)]
    found: dict[str, list[Any]] = pa.concat_tables(tables).to_pydict()
    return found


def open_corpus(suffix: str, folder: Path) -> FileCorpus | TableCorpus:
    if suffix == "table":
        return TableCorpus(TABLE)
    return FileCorpus.open([str(write_chats(folder / f"chats{suffix}"))])


@pytest.mark.parametrize("suffix", [*SUFFIXES, "table"])
def test_paths_are_read_in_every_role_and_format(suffix: str, tmp_path: Path) -> None:
    corpus = open_corpus(suffix, tmp_path)
    documents = read_documents(corpus, COLUMNS)
    assert documents == {
        "text": TEXTS,
        "id": ["k0", "k1", "k2"],
        carried_column_name("meta.lang"): ["en", "en", "de"],
        carried_column_name("meta.score"): ["0", "1.5", "3"],
        carried_column_name("messages.role"): ["user\nbot"] * 3,
        carried_column_name("messages.ids"): ["[0,1,2]", "[1,1,2]", "[2,1,2]"],
    }
    rejected = [entry for batch in corpus.batches(COLUMNS) for entry in batch.rejected]
    assert [(entry.row, entry.reason) for entry in rejected] == [(3, "messages.content is null")]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_kept_rows_of_nested_columns_are_unchanged(suffix: str, tmp_path: Path) -> None:
    path = write_chats(tmp_path / "in" / f"chats{suffix}")
    out = tmp_path / "out"
    options = ("--text", "messages.content", "--id", "meta.key", "--block-by", "meta.lang")
    keep = ("--keep", "meta.score desc", "--threshold", 0.7)
    assert run("dedup", path, *options, *keep, "--out", out, "--quiet") == app.DONE
    kept = out / "kept" / path.name
    expected = [CHATS[1], CHATS[2]]
    match suffix:
        case ".jsonl":
            assert kept.read_text() == "".join(json.dumps(row) + "\n" for row in expected)
        case ".json":
            assert json.loads(kept.read_text()) == expected
        case ".avro":
            with kept.open("rb") as file:
                assert list(fastavro.reader(file)) == expected
        case ".orc":
            assert orc.read_table(kept).to_pylist() == expected
        case ".arrow":
            assert pa.feather.read_table(kept).to_pylist() == expected
        case _:
            assert pq.read_table(kept).to_pylist() == expected
            assert pq.read_schema(kept) == pq.read_schema(path)


def test_column_with_the_name_of_a_path_takes_precedence(tmp_path: Path) -> None:
    rows = [{"a.b": "literal", "a": {"b": "nested"}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text(json.dumps(rows[0]))
    columns = Columns(text="a.b", carried_columns=("a.b",))
    for name in ("rows.parquet", "rows.jsonl"):
        documents = read_documents(FileCorpus.open([str(tmp_path / name)]), columns)
        assert documents == {"text": ["literal"], carried_column_name("a.b"): ["literal"]}


def test_other_contents_are_read_from_paths(tmp_path: Path) -> None:
    rows = [
        {"d": {"words": ["a", "b"], "vector": [1.0, 2.0], "hash": "00000000000000ff"}},
        {"d": {"words": ["c"], "vector": [0.5, 2.0], "hash": "0000000000000001"}},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    contents = (
        Columns(text=None, tokens="d.words"),
        Columns(text=None, vector="d.vector", dimensions=2),
        Columns(text=None, fingerprint="d.hash"),
        Columns(joined=("d.hash",), text="d.hash"),
    )
    for columns in contents:
        parquet, lines = (
            read_documents(FileCorpus.open([str(tmp_path / name)]), columns)
            for name in ("rows.parquet", "rows.jsonl")
        )
        assert parquet == lines
        assert len(lines[columns.content]) == 2
    table = nk.pairs(pa.Table.from_pylist(rows), fields=["d.words:jaccard/tokens>=0.9"])
    assert table.pairs.arrow.num_rows == 0


@pytest.mark.parametrize(
    "options",
    [
        {"keep": "meta.lang:de>en, newest:meta.key"},
        {"same": "meta.key", "url": "meta.lang"},
        {"source": "meta.lang", "split": "meta.lang"},
        {"across": "meta.lang"},
        {"max_removed": "meta.lang:1.0"},
        {"accept": "jaccard >= 0.7 and same(meta.lang)"},
    ],
)
def test_paths_are_columns_of_every_option(options: dict[str, Any], tmp_path: Path) -> None:
    """The result is that of columns outside of others."""
    flat = [
        {
            "text": "\n".join(m["content"] for m in row["messages"] if m["content"]) or None,
            **{f"meta_{name}": value for name, value in row["meta"].items()},
        }
        for row in CHATS
    ]
    expected = nk.dedup(
        flat, **{name: value.replace("meta.", "meta_") for name, value in options.items()}
    )
    for suffix in (".parquet", ".jsonl"):
        path = write_chats(tmp_path / f"chats{suffix}")
        result = nk.dedup(path, text="messages.content", **options)
        assert result.kept.tolist() == expected.kept.tolist()[:3]


def test_unknown_path_is_an_error_with_the_known_ones(tmp_path: Path) -> None:
    for suffix in (".parquet", ".jsonl"):
        corpus = FileCorpus.open([str(write_chats(tmp_path / f"chats{suffix}"))])
        with pytest.raises(UsageError, match=r"'messages\.content'") as caught:
            corpus.check(Columns(text="messages.contents"))
        assert "did you mean 'messages.content'?" in str(caught.value)
    with pytest.raises(UsageError, match=r"no column 'meta\.x'"):
        nk.dedup(TABLE, text="messages.content", keep="meta.x desc")


def test_texts_inside_columns_are_not_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in (".parquet", ".jsonl"):
        path = write_chats(tmp_path / f"chats{suffix}")
        options = ("--text", "messages.content", "--passages", 5, "--cut", "passage")
        code = run("dedup", path, *options, "--out", tmp_path / "out", "--quiet")
        assert code == app.USAGE
        assert "'messages.content' is inside another column" in capsys.readouterr().err


def make_value(rng: random.Random, depth: int) -> Any:
    """Returns a random value of the type that `TYPE` has at a depth."""
    if rng.random() < 0.15:
        return None
    if depth == 0:
        return {"t": rng.choice(["x", "", "longer text", None]), "n": rng.choice([1, 2, None])}
    return [make_value(rng, depth - 1) for _ in range(rng.randrange(4))]


INNER = pa.struct([("t", pa.string()), ("n", pa.int64())])


@pytest.mark.parametrize("seed", range(6))
def test_arrow_and_json_agree_on_random_values(seed: int) -> None:
    rng = random.Random(seed)
    depth = seed % 3
    rows = [{"v": make_value(rng, depth)} for _ in range(60)]
    kind: pa.DataType = INNER
    for _ in range(depth):
        kind = rng.choice([pa.list_, pa.large_list])(kind)
    batch = pa.record_batch([pa.array([row["v"] for row in rows], kind)], ["v"]).slice(7)
    for path in ("v.t", "v.n"):
        columns = Columns(text=None, tokens=path)
        found = derive_columns(batch, columns).rows[path].to_pylist()
        expected = [find_value(row, path) for row in rows[7:]]
        # Arrow knows from the type that the path leads to values, also in rows without any.
        assert found == [None if value is MISSING else value for value in expected]


@pytest.mark.parametrize("encode", ["dictionary", "view", "runs", "list_view", "fixed", "map"])
def test_paths_lead_through_every_layout(encode: str) -> None:
    texts: pa.Array = pa.array(["a", None, "b", "c"])
    match encode:
        case "dictionary":
            texts = texts.dictionary_encode()
        case "view":
            texts = texts.cast(pa.string_view())
        case "runs":
            texts = pa.compute.run_end_encode(texts)
    if encode == "map":
        maps = pa.array([[("t", "a\nb"), ("u", "x")], None], pa.map_(pa.string(), pa.string()))
        batch = pa.record_batch([maps], ["v"])
        assert is_column("v.t", batch.schema)
        assert derive_columns(batch, Columns(text="v.t")).rows["v.t"].to_pylist() == ["a\nb", None]
        return
    structs = pa.StructArray.from_arrays([texts], ["t"])
    lists = pa.LargeListArray.from_arrays(pa.array([0, 2, 4]), structs)
    if encode == "list_view":
        kind = pa.list_view(pa.struct([("t", pa.string())]))
        lists = pa.array([[{"t": "a"}, {"t": None}], [{"t": "b"}, {"t": "c"}]], kind)
    if encode == "fixed":
        lists = lists.cast(pa.list_(structs.type, 2))
    batch = pa.record_batch([lists], ["v"])
    assert derive_columns(batch, Columns(text="v.t")).rows["v.t"].to_pylist() == ["a", "b\nc"]


def test_row_whose_repeated_text_is_too_long_is_rejected_alone() -> None:
    """A dictionary can stand for more text than memory has."""
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 40 + [1]), ["x" * 100, "short"])
    structs = pa.StructArray.from_arrays([words], ["t"])
    lists = pa.LargeListArray.from_arrays(pa.array([0, 40, 41]), structs)
    columns = Columns(text="v.t", document_limit=1000)
    corpus = TableCorpus(pa.table({"v": lists}))
    batches = list(corpus.batches(columns))
    assert [text for batch in batches for text in batch.documents["text"].to_pylist()] == ["short"]
    reasons = [entry.reason for batch in batches for entry in batch.rejected]
    assert len(reasons) == 1
    assert "v.t is longer than 1,000 bytes" in reasons[0]


def test_library_reads_paths_of_tables_and_files(tmp_path: Path) -> None:
    path = write_chats(tmp_path / "chats.jsonl")
    for data in (TABLE, path, CHATS):
        result = nk.dedup(
            data, text="messages.content", id="meta.key", keep="id desc", threshold=0.9
        )
        clusters = {row["id"]: row["cluster"] for row in result.clusters.arrow.to_pylist()}
        assert clusters == {"k0": "k2", "k1": "k1", "k2": "k2"}


LANGUAGES = (None, "a/b", "en")
"""The values of the partition folders, in the order of their names."""


def write_partitions(folder: Path, suffix: str = ".parquet") -> Path:
    """Writes rows into partition folders, as Hive and Spark do."""
    for name in ("lang=en", "lang=a%2Fb", "lang=__HIVE_DEFAULT_PARTITION__"):
        path = folder / name / f"part-0{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"text": BODY, "n": number} for number in range(2)]
        match suffix:
            case ".parquet":
                pq.write_table(pa.Table.from_pylist(rows), path)
            case ".arrow":
                pa.feather.write_feather(pa.Table.from_pylist(rows), path)
            case ".csv":
                path.write_text("text,n\n" + "".join(f"{row['text']},{row['n']}\n" for row in rows))
            case ".jsonl":
                path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            case _:
                path.write_text(BODY)
    return folder


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".jsonl", ".txt"])
def test_partition_folders_are_columns(suffix: str, tmp_path: Path) -> None:
    folder = write_partitions(tmp_path / "in", suffix)
    rows = 1 if suffix == ".txt" else 2
    columns = Columns(carried_columns=("lang",))
    documents = read_documents(FileCorpus.open([str(folder)]), columns)
    expected = [value for value in LANGUAGES for _ in range(rows)]
    assert documents[carried_column_name("lang")] == expected
    out = tmp_path / "out"
    assert run("dedup", folder, "--block-by", "lang", "--out", out, "--quiet") == app.DONE
    kept = sorted(path.relative_to(out / "kept").as_posix() for path in (out / "kept").rglob("*.*"))
    assert kept == sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))


def test_partition_is_the_value_of_a_column_of_the_same_name(tmp_path: Path) -> None:
    path = tmp_path / "lang=en" / "part.jsonl"
    path.parent.mkdir()
    path.write_text('{"text": "a b c", "lang": "de"}\n{"text": "d e f"}\n')
    documents = read_documents(FileCorpus.open([str(path)]), Columns(carried_columns=("lang",)))
    assert documents[carried_column_name("lang")] == ["en", "en"]


def test_single_partition_stays_in_the_name_and_in_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    path = folder / "lang=en" / "part-0.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"text": "a b c"}\n')
    assert FileCorpus.open([str(folder)]).names == ["lang=en/part-0.jsonl"]
    assert FileCorpus.open([str(folder / "*" / "*.jsonl")]).names == ["lang=en/part-0.jsonl"]
    # Nothing of the path of a named file is in its name.
    assert FileCorpus.open([str(path)]).names == ["part-0.jsonl"]
    assert FileCorpus.open([str(path.parent)]).names == ["part-0.jsonl"]
    out = tmp_path / "kept.jsonl"
    assert run("dedup", folder, "--out", out, "--quiet") == app.DONE
    assert json.loads(out.read_text()) == {"lang": "en", "text": "a b c"}
    table = tmp_path / "kept.parquet"
    assert run("dedup", folder, "--out", table, "--quiet") == app.DONE
    assert pq.read_table(table, partitioning=None).to_pylist() == [{"text": "a b c", "lang": "en"}]
    alone = tmp_path / "alone.jsonl"
    assert run("dedup", path, "--source", "lang", "--out", alone, "--quiet") == app.DONE
    assert alone.read_text() == path.read_text()


def test_every_role_takes_partitions(tmp_path: Path) -> None:
    folder = write_partitions(tmp_path / "in")
    fields = (ContentField("text"), ContentField("lang", FieldKind.VALUE))
    for columns, expected in (
        (Columns(text=None, fields=fields), [{"text": BODY, "lang": lang} for lang in LANGUAGES]),
        (Columns(joined=("lang",)), [BODY, f"{BODY}\na/b", f"{BODY}\nen"]),
        (Columns(text="lang"), ["a/b", "en"]),
    ):
        documents = read_documents(FileCorpus.open([str(folder)]), columns)
        assert documents[columns.content][::2] == expected
    documents = read_documents(FileCorpus.open([str(folder)]), Columns(id="lang"))
    assert documents["id"] == ["a/b", "a/b", "en", "en"]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_many_nulls_inside_a_column_are_one_rejection(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    assert write_table(pa.table({"meta": pa.nulls(2000, pa.struct([("t", pa.string())]))}), path)
    texts, rejected = read_file(path, Columns(text="meta.t"))
    assert texts == []
    assert [(entry.rows, entry.reason) for entry in rejected] == [(2000, "meta.t is null")]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_text_inside_a_column_that_is_not_utf8_costs_only_its_row(
    suffix: str, tmp_path: Path
) -> None:
    texts = pa.array([b"one", b"\xff", b"three"]).view(pa.string())
    turns = pa.StructArray.from_arrays([texts], ["content"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), turns)
    path = tmp_path / f"a{suffix}"
    assert write_table(pa.table({"turns": lists}), path)
    read, rejected = read_file(path, Columns(text="turns.content"))
    assert read == ["one", "three"]
    assert [(entry.row, entry.reason) for entry in rejected] == [
        (1, "turns.content is not valid UTF-8")
    ]
