"""Tests of the result of a run without the documents that are like given ones."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from tests.engine.reference_oracle import make_texts, share_texts, similarity_of

GIVEN = make_texts(41, 20)
TEXTS = share_texts(41, GIVEN, 60)
IDS = [f"d{number}" for number in range(len(TEXTS))]
THRESHOLD = 0.6
LINE = ["--id", "id", "--threshold", str(THRESHOLD)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents and a file of given ones, which is the current one."""
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    table = make_table()
    pq.write_table(table.slice(0, 30), "docs/a.parquet")
    pq.write_table(table.slice(30), "docs/b.parquet")
    rows = [{"request": f"r{number}", "body": text} for number, text in enumerate(GIVEN)]
    Path("like.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def make_table() -> pa.Table:
    """The documents, with a source, and with a key that some of them share."""
    numbers = range(len(TEXTS))
    sources = [f"s{number % 4}" for number in numbers]
    keys = [str(number % 23) if number % 3 else None for number in numbers]
    return pa.table({"id": IDS, "text": TEXTS, "source": sources, "key": keys})


DECIDED = [(number, number + 7, "same") for number in range(0, 40, 5)]
DECIDED += [(number, number + 9, "different") for number in range(1, 40, 5)]


def write_decisions() -> str:
    rows = [{"id_a": IDS[a], "id_b": IDS[b], "decision": verdict} for a, b, verdict in DECIDED]
    Path("decisions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "decisions.jsonl"


PURGE = ["purge", "run", "--like", "like.jsonl", "--text", "body", "--id", "request"]


def find_like() -> dict[str, float]:
    """The documents that are like a given one, with the highest similarity, by comparing all."""
    best = {
        id: max(similarity_of(text, given) for given in GIVEN if given)
        for id, text in zip(IDS, TEXTS, strict=True)
    }
    return {id: similarity for id, similarity in best.items() if similarity >= THRESHOLD}


def hash_files(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def read_clusters(out: str) -> list[dict[str, Any]]:
    return pq.read_table(Path(out) / "clusters.parquet").to_pylist()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--save-signatures"],
        ["--annotate", "--keep", "length asc"],
        ["--decisions", "decisions.jsonl", "--same", "key"],
        ["--decisions", "decisions.jsonl", "--max-lost", "0.2", "--save-signatures"],
    ],
    ids=str,
)
def test_the_result_is_that_of_a_run_without_the_documents(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_decisions()
    assert command(["dedup", "docs", *LINE, *options, "--out", "run", "--quiet"]) == 0
    before = hash_files(Path())
    capsys.readouterr()
    assert command([*PURGE, "--out", "purged", "--quiet", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    like = find_like()
    assert 5 < len(like) < 55
    was_kept = {row["id"] for row in read_clusters("run") if row["kept"]}
    assert {row["id"]: row["similarity"] for row in facts["purged"]} == like
    assert {row["id"] for row in facts["purged"] if row["was_kept"]} == was_kept & set(like)
    assert (facts["removed"], facts["compared"]) == (len(like), len(TEXTS))
    # the others are as if the documents had not been there
    rest = [number for number, id in enumerate(IDS) if id not in like]
    table = make_table().take(rest)
    values = dict(zip(options[::2], options[1::2], strict=False))
    other: dict[str, Any] = {
        name[2:].replace("-", "_"): float(value) if name == "--max-lost" else value
        for name, value in values.items()
        if name in ("--decisions", "--same", "--max-lost")
    }
    if "--keep" in options:
        other["keep"] = "length asc"
    want = nk.dedup(table, id="id", threshold=THRESHOLD, **other).clusters.arrow
    names = ["id", "kept", "cluster", "similarity"]
    rows = [row for row in read_clusters("purged") if row["id"] not in like]
    assert [[row[name] for name in names] for row in rows] == [
        [row[name] for name in names] for row in want.select(names).to_pylist()
    ]
    copied = pq.read_table("purged/kept")["id"].to_pylist()
    annotates = "--annotate" in options
    assert sorted(copied) == sorted(row["id"] for row in rows if row["kept"] or annotates)
    after = hash_files(Path())
    assert {path: digest for path, digest in after.items() if path in before} == before
    record = json.loads(Path("purged/run.json").read_bytes())
    assert record["blocklist"]["purged"] == "run"
    assert record["blocklist"]["like"] == ["like.jsonl"]
    assert Path("purged/signatures").exists() == ("--save-signatures" in options)
    assert command([*PURGE, "--out", "purged", "--quiet", "--resume"]) == 0
    assert f"removed {len(like)} of 60 documents" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_a_run_against_a_reference_with_passages_and_a_blocklist_is_repeated_with_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pq.write_table(pa.table({"id": ["o"], "text": [TEXTS[1]]}), "old.parquet")
    blocked = next(n for n, id in enumerate(IDS) if TEXTS[n] and id not in find_like() and n > 1)
    row = {"id": "b", "text": TEXTS[blocked]}
    Path("blocked.jsonl").write_text(json.dumps(row) + "\n")
    assert command(["block", "add", "blocked.jsonl", "--list", "list", "--id", "id"]) == 0
    other = ["--against", "old.parquet", "--blocklist", "list", "--sizes"]
    other += ["--passages", "40:chars"]
    assert command(["dedup", "docs", *LINE, *other, "--out", "run", "--quiet"]) == 0
    capsys.readouterr()
    assert command([*PURGE, "--out", "purged", "--quiet", "--json"]) == 0
    purged = {row["id"]: row["like"] for row in json.loads(capsys.readouterr().out)["purged"]}
    assert set(find_like()) < set(purged)
    assert purged[IDS[blocked]] == "b"
    rows = {row["id"]: row for row in read_clusters("purged")}
    assert rows[IDS[1]]["matched_in"] == "reference" or IDS[1] in purged
    assert "cluster_size" in pq.read_schema("purged/kept/a.parquet").names
    record = json.loads(Path("purged/run.json").read_bytes())
    assert record["blocklist"]["path"] == "list"
    assert (record["passages"]["min_tokens"], record["passages"]["unit"]) == (40, "chars")
    # the given documents are not stored, so that they cannot be left out of another purge
    again = ["purge", "purged", *PURGE[2:], "--out", "again", "--quiet"]
    assert command(again) == 2
    assert "purge run by the documents of both" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_run_that_cuts_repeated_lines_is_repeated_with_them() -> None:
    options = ["--repeated-lines", "3:places", "--lines-action", "remove"]
    assert command(["dedup", "docs", *LINE, *options, "--out", "run", "--quiet"]) == 0
    assert command([*PURGE, "--out", "purged", "--quiet"]) == 0
    lines = json.loads(Path("purged/run.json").read_bytes())["lines"]
    assert (lines["least"], lines["counted"], lines["action"]) == (3, "places", "remove")


REFUSALS: list[tuple[list[str], list[str], str]] = [
    ([], [], "missing option --out"),
    ([], ["--out", "new", "--scope", "s"], "--scope has no effect on a run"),
    ([], ["--out", "new", "--yes"], "--yes has no effect on a run"),
    ([], ["--out", "run"], "run is an input"),
    ([], ["--out", "like.jsonl"], "like.jsonl"),
    ([], ["--out", "run/inner"], "inside"),
    ([], ["--out", "docs"], "docs"),
    ([], ["--out", "new", "--like", "absent.jsonl"], "no such file"),
    (["--document-weights", "log"], ["--out", "new"], "--document-weights, which keeps all"),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("options", "line", "message"), REFUSALS, ids=str)
def test_a_purge_that_is_not_possible_writes_nothing(
    options: list[str], line: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["dedup", "docs", *LINE, *options, "--out", "run", "--quiet"]) == 0
    refuse_purge([*PURGE, *line], message, capsys)


def refuse_purge(line: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a purge, and compare its error and the files of the current folder."""
    before = hash_files(Path())
    capsys.readouterr()
    assert command([*line, "--quiet"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert hash_files(Path()) == before


@pytest.mark.usefixtures("folder")
def test_a_purge_by_an_unknown_column_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["dedup", "docs", *LINE, "--out", "run", "--quiet"]) == 0
    line = ["purge", "run", "--like", "like.jsonl", "--text", "no", "--out", "new"]
    refuse_purge(line, "no column 'no'", capsys)


@pytest.mark.usefixtures("folder")
def test_changed_inputs_and_damaged_files_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["dedup", "docs", *LINE, "--out", "run", "--quiet"]) == 0
    like = Path("like.jsonl").read_text()
    Path("like.jsonl").write_text(like + "broken\n")
    assert command([*PURGE, "--out", "new", "--quiet"]) == 1
    refusal = " ".join(capsys.readouterr().err.split())
    assert "like.jsonl, line 21" in refusal
    assert "Correct the row, or delete it from the file" in refusal
    assert "on-error" not in refusal
    Path("like.jsonl").write_text(like)
    pq.write_table(pa.table({"id": ["x"], "text": ["y"], "source": ["z"]}), "docs/a.parquet")
    assert command([*PURGE, "--out", "new", "--quiet"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "a.parquet" in message
    assert "nearkin dedup run/kept with --blocklist" in message
    assert not Path("new").exists()
    assert not Path("new.partial").exists()


@pytest.mark.usefixtures("folder")
def test_a_run_whose_reference_changed_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Documents that the run had removed as duplicates of the reference would be kept."""
    reference = Path("old.parquet")
    pq.write_table(pa.table({"id": ["o"], "text": [TEXTS[1]]}), reference)
    line = ["dedup", "docs", *LINE, "--against", "old.parquet", "--out", "run", "--quiet"]
    assert command(line) == 0
    pq.write_table(pa.table({"id": ["o"], "text": ["something else"]}), reference)
    assert command([*PURGE, "--out", "new", "--quiet"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "run cannot be purged: of the reference, the input" in message
    assert "old.parquet has changed: size was" in message
    assert "restore the reference, or run nearkin dedup on its inputs with --against" in message
    # a relative path names another file in another folder
    Path("other").mkdir()
    monkeypatch.chdir("other")
    purge = ["purge", "../run", "--like", "../like.jsonl", "--text", "body", "--id", "request"]
    assert command([*purge, "--out", "new", "--quiet"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "../run cannot be purged: no such file or folder: old.parquet; restore" in message
    assert not Path("new").exists()


@pytest.mark.usefixtures("folder")
def test_a_run_whose_decisions_changed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["dedup", "docs", *LINE, "--decisions", write_decisions(), "--out", "run", "--quiet"]
    assert command(line) == 0
    path = Path("decisions.jsonl")
    path.write_text(path.read_text().replace("different", "same"))
    assert command([*PURGE, "--out", "new", "--quiet"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "the decisions in decisions.jsonl are not those of the run; restore" in message
    path.unlink()
    assert command([*PURGE, "--out", "new", "--quiet"]) == 2
    assert "run cannot be purged: no such file" in capsys.readouterr().err
    assert not Path("new").exists()


FIELDS = ["text:jaccard>=0.6", "source:jaccard>=0.9", "code:hamming<=1"]


@pytest.mark.usefixtures("folder")
def test_a_run_over_fields_is_repeated_without_documents_like_given_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A document is like a given one if the condition over the fields holds for both."""
    codes = [None if number % 5 == 0 else f"{number % 11:016x}" for number in range(len(TEXTS))]
    table = make_table().append_column("code", pa.array(codes))
    pq.write_table(table, "fields.parquet")
    given = [
        {
            "request": f"r{number}",
            "text": text,
            "source": f"s{number % 4}",
            "code": f"{number:016x}",
        }
        for number, text in enumerate(GIVEN[:12])
    ]
    given[3]["text"] = ""
    Path("given.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given))
    line = ["dedup", "fields.parquet", "--id", "id"]
    for field in FIELDS:
        line += ["--field", field]
    line += ["--accept", "text and source or code", "--out", "run", "--quiet"]
    line += ["--max-removed", "0.9"]
    assert command(line) == 0
    purge = ["purge", "run", "--like", "given.jsonl", "--out", "purged", "--quiet"]
    assert command([*purge, "--text", "body"]) == 2
    assert "--text body has no effect on the purge of a run over" in capsys.readouterr().err
    assert command([*purge, "--id", "request", "--json"]) == 0
    purged = json.loads(capsys.readouterr().out)["purged"]

    def is_like(row: dict[str, Any], other: dict[str, Any]) -> bool:
        same_text = similarity_of(row["text"], other["text"]) >= 0.6 and bool(row["text"])
        codes = [int(code, 16) if code else None for code in (row["code"], other["code"])]
        near_code = None not in codes and (codes[0] ^ codes[1]).bit_count() <= 1  # type: ignore[operator]
        return (same_text and row["source"] == other["source"]) or near_code

    rows = table.to_pylist()
    like = {row["id"] for row in rows if any(is_like(row, other) for other in given)}
    assert {row["id"] for row in purged} == like
    assert 10 < len(like) < 50
    rest = [number for number, row in enumerate(rows) if row["id"] not in like]
    want = nk.dedup(table.take(rest), id="id", fields=FIELDS, accept="text and source or code")
    found = {row["id"]: row["cluster"] for row in read_clusters("purged") if row["id"] not in like}
    assert found == {row["id"]: row["cluster"] for row in want.clusters.to_pylist()}
    Path("given.jsonl").write_text(json.dumps({**given[0], "text": None, "code": None}) + "\n")
    assert command([*purge, "--id", "request", "--overwrite"]) == 2
    assert "no document can be like 'r0', which lacks fields" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", ["fingerprint", "vector"])
def test_a_run_over_fingerprints_or_vectors_is_repeated(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 2**63, 30, dtype=np.uint64)
    codes[20:] = codes[:10] ^ (np.uint64(1) << np.arange(10, dtype=np.uint64))
    vectors = rng.normal(size=(30, 8))
    vectors[20:] = vectors[:10] + 0.02
    ids = [f"d{number}" for number in range(30)]
    rows = pa.table({"id": ids, "code": codes, "vector": vectors.tolist()})
    pq.write_table(rows, "rows.parquet")
    pq.write_table(
        rows.take([2, 5, 14, 27]).rename_columns(["id", "code", "given"]), "given.parquet"
    )
    line = ["--fingerprint", "code", "--distance", "1"]
    column = []
    if kind == "vector":
        line = ["--vector", "vector", "--threshold", "0.99"]
        column = ["--vector", "given"]
    assert command(["dedup", "rows.parquet", "--id", "id", *line, "--out", "run", "--quiet"]) == 0
    capsys.readouterr()
    purge = ["purge", "run", "--like", "given.parquet", "--id", "id", "--out", "purged", "--quiet"]
    assert command([*purge, "--text", "id"]) == 2
    assert f"has no effect on the purge of a run over {line[1]}" in capsys.readouterr().err
    assert command([*purge, *column, "--json"]) == 0
    purged = {row["id"] for row in json.loads(capsys.readouterr().out)["purged"]}
    assert purged == {"d2", "d22", "d5", "d25", "d14", "d7", "d27"}
    kept = {row["id"] for row in read_clusters("purged") if row["kept"]}
    assert len(kept) == 20 - len({"d2", "d5", "d7", "d14"})


@pytest.mark.usefixtures("folder")
def test_a_run_with_a_key_needs_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("key").write_text("00" * 16)
    key = ["--key-file", "key"]
    assert command(["dedup", "docs", *LINE, *key, "--out", "run", "--quiet"]) == 0
    assert command([*PURGE, "--out", "new", "--quiet"]) == 2
    assert "pass the key" in capsys.readouterr().err
    assert command([*PURGE, *key, "--out", "new", "--quiet"]) == 0
    assert f"removed {len(find_like())} of 60 documents" in capsys.readouterr().out
