"""Tests that copies of inputs stay inside the output folder."""

from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.writer import KnownDocuments
from nearkin.errors import RunError
from tests.corpus.samples import kept_texts, lines_of, run_dedup_on, words_of


def test_copies_of_inputs_above_the_current_folder_stay_inside_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "crawl").mkdir()
    (tmp_path / "crawl" / "a.jsonl").write_text(lines_of(1, 2))
    (work / "b.jsonl").write_text(lines_of(3))
    monkeypatch.chdir(work)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    run_dedup_on(["../crawl", "b.jsonl"], work / "out")
    assert sorted(
        str(path.relative_to(work / "out")) for path in (work / "out" / "kept").rglob("*.jsonl")
    ) == [
        "kept/crawl/a.jsonl",
        "kept/work/b.jsonl",
    ]
    assert {path: path.read_bytes() for path in before} == before
    outside = {
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and (work / "out") not in path.parents
    }
    assert outside == set(before)


def test_copies_of_a_local_file_and_a_url_stay_inside_the_output(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines_of(1))
    with fsspec.open("memory://bucket/b.jsonl", "w") as file:
        file.write(lines_of(2))
    run_dedup_on([str(tmp_path / "a.jsonl"), "memory://bucket/b.jsonl"], tmp_path / "out")
    assert (tmp_path / "a.jsonl").read_text() == lines_of(1)
    assert kept_texts(tmp_path / "out") == [words_of(1), words_of(2)]


@pytest.mark.parametrize("name", ["../a.jsonl", "/tmp/a.jsonl", "x/../../a.jsonl", ""])
def test_target_outside_the_output_is_an_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines_of(1))
    (tmp_path / "out").mkdir()
    corpus = FileCorpus([InputFile(str(tmp_path / "a.jsonl"), name)])
    with pytest.raises(RunError, match="leads out of"):
        write_kept(corpus, Columns(), np.ones(1, bool), tmp_path / "out")
    assert (tmp_path / "a.jsonl").read_text() == lines_of(1)


CONTENT = (
    b'\xef\xbb\xbf{"id": "a", "text": "first"}\n'
    b"\n"
    b'{"id": "b", "text": null}\n'
    b'{"text": "second", "id": "c"}\r\n'
    b"not JSON\n"
    b'{"id": "long", "text": "' + b"x" * 5000 + b'"}\n'
    b'{"id": "d", "other": 1e10, "text": "third"}\n'
    b'  {"id": "e", "text": "\\u00e9t\\u00e9"}  \n'
    b'{"id": "f", "text": "last"}'
)
"""Lines with a byte order mark, a blank line, rejected rows, and without a line end."""


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.zst"])
@pytest.mark.parametrize("block", [16, 100, 1 << 19])
@pytest.mark.parametrize("has_added_columns", [False, True])
def test_known_documents_are_copied_as_parsed_ones_are(
    ending: str,
    block: int,
    has_added_columns: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearkin.corpus.formats.json_lines.BLOCK", block)
    path = tmp_path / f"a.{ending}"
    with pa.output_stream(str(path), compression="detect") as stream:
        stream.write(CONTENT)
    (tmp_path / f"b.{ending}").write_bytes(path.read_bytes())
    columns = Columns(id="id", document_limit=2000)
    corpus = FileCorpus.open([str(tmp_path)])
    batches = list(corpus.batches(columns))
    files = np.concatenate([batch.files for batch in batches])
    rows = np.concatenate([batch.rows for batch in batches])
    texts = [text for batch in batches for text in batch.documents["text"].to_pylist()]
    assert texts[:4] == ["first", "second", "third", "été"]
    kept = np.arange(len(texts)) % 3 != 1
    observed = np.arange(0, len(texts), 2)

    def added_columns(start: int, end: int) -> pa.RecordBatch:
        return pa.record_batch([pa.array(range(start, end))], ["ordinal"])

    copies = []
    for known in (None, KnownDocuments(files, rows, observed)):
        folder = tmp_path / ("parsed" if known is None else "known")
        seen: dict[int, str] = {}

        def observe(first: int, documents: pa.Array, seen: dict[int, str] = seen) -> None:
            seen.update(enumerate(documents.to_pylist(), first))

        write_kept(
            corpus,
            columns,
            kept,
            folder,
            added_columns if has_added_columns else None,
            observe,
            known=known,
        )
        assert {ordinal: seen[ordinal] for ordinal in observed.tolist()} == {
            ordinal: texts[ordinal] for ordinal in observed.tolist()
        }
        copies.append({file.name: _decompress(file) for file in sorted(folder.iterdir())})
    assert copies[0] == copies[1]
    assert len(copies[0]) == 2


@pytest.mark.parametrize("has_added_columns", [False, True])
@pytest.mark.parametrize("kept_share", ["none", "some", "all"])
def test_copies_do_not_depend_on_workers_and_parts(
    has_added_columns: bool, kept_share: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    rows = [
        {"id": f"{number}", "text": None if number % 9 == 4 else f"text {number} " * 9, "x": number}
        for number in range(900)
    ]
    schema = pa.schema([("id", pa.string()), ("text", pa.string()), ("x", pa.int32())])
    (tmp_path / "in").mkdir()
    for number, name in enumerate(("a", "b", "d")):
        part = rows[300 * number : 300 * number + 300]
        table = pa.Table.from_pylist(part, schema)
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet", row_group_size=50 + number)
    (tmp_path / "in" / "c.jsonl").write_text(lines_of(*range(20)))
    corpus = FileCorpus.open([str(tmp_path / "in")])
    batches = list(corpus.batches(Columns()))
    files = np.concatenate([batch.files for batch in batches])
    texts = [text for batch in batches for text in batch.documents["text"].to_pylist()]
    kept = {"none": np.zeros(len(texts), bool), "all": np.ones(len(texts), bool)}.get(
        kept_share, (np.arange(len(texts)) > 250) & (rng.random(len(texts)) < 0.5)
    )
    rows_of_documents = np.concatenate([batch.rows for batch in batches])
    observed = np.flatnonzero(rng.random(len(texts)) < 0.05)
    known = KnownDocuments(files, rows_of_documents, observed)

    def added_columns(start: int, end: int) -> pa.RecordBatch:
        return pa.record_batch([pa.array(range(start, end))], ["ordinal"])

    copies = []
    for part_bytes, workers in ((1 << 30, 1), (1 << 30, 4), (1, 1), (1, 3), (6_000, 2)):
        monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", part_bytes)
        folder = tmp_path / f"out-{part_bytes}-{workers}"
        seen: list[tuple[int, str]] = []
        counts: list[int] = []

        def observe(first: int, documents: pa.Array, seen: list[tuple[int, str]] = seen) -> None:
            wanted = observed[(observed >= first) & (observed < first + len(documents))]
            seen.extend((at, documents[at - first].as_py()) for at in wanted.tolist())

        write_kept(
            corpus,
            Columns(),
            kept,
            folder,
            added_columns if has_added_columns else None,
            observe,
            counts.append,
            known=known,
            workers=workers,
        )
        assert seen == [(at, texts[at]) for at in observed.tolist()]
        assert sum(counts) == len(texts)
        content: dict[str, object] = {}
        for path in sorted(folder.iterdir()):
            is_table = path.suffix == ".parquet"
            content[path.name] = pq.read_table(path) if is_table else path.read_bytes()
        copies.append(content)
        assert list(content) == ["a.parquet", "b.parquet", "c.jsonl", "d.parquet"]
    for other in copies[1:]:
        assert other == copies[0]


def _decompress(path: Path) -> bytes:
    with pa.input_stream(str(path), compression="detect") as stream:
        return bytes(stream.read())


def test_known_documents_that_are_missing_now_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines_of(1, 2))
    corpus = FileCorpus.open([str(path)])
    known = KnownDocuments(np.zeros(3, np.int32), np.arange(3), np.arange(0))
    with pytest.raises(RunError, match="the inputs have 2 documents now, but had 3 before"):
        write_kept(corpus, Columns(), np.ones(3, bool), tmp_path / "out", known=known)


def test_further_documents_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines_of(1, 2))
    corpus = FileCorpus.open([str(path)])
    with pytest.raises(RunError, match="at least 2 documents now, but had 1 before"):
        write_kept(corpus, Columns(), np.ones(1, bool), tmp_path / "out")


def test_copy_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines_of(1))
    (tmp_path / "out" / "a.jsonl").mkdir(parents=True)
    corpus = FileCorpus.open([str(path)])
    with pytest.raises(RunError, match=r"cannot copy .*a\.jsonl to .*out/a\.jsonl: "):
        write_kept(corpus, Columns(), np.ones(1, bool), tmp_path / "out")
