"""Fields of texts, tokens, fingerprints and vectors under any condition, against brute force."""

import json
import math
import random
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.corpus import FileCorpus
from nearkin.engine import sketching
from nearkin.errors import RunError, UsageError

WORDS = [f"w{number}" for number in range(40)]
FIELDS = {
    "title": "title:jaccard>=0.5",
    "body": "body:jaccard>=0.6",
    "tags": "tags:jaccard>=0.7",
    "image": "image:hamming<=4",
    "embedding": "embedding:cosine>=0.97",
}
LIMITS = {"title": 0.5, "body": 0.6, "tags": 0.7, "image": 60 / 64, "embedding": 0.97}
COMPLETE: dict[str, Any] = {"shingle": "words:1", "bands": 64, "rows": 1, "k": 64, "recall": 0.9999}
"""Bands of one row: a pair at 0.5 is missed with a probability of 2^-64."""
CONDITIONS = (
    "title or body",
    "body or image",
    "image or embedding and tags",
    "tags or embedding",
    "embedding or image",
    "image and (title or tags or embedding)",
    "title and body or body and image or tags and embedding",
    "title or body or tags or image or embedding",
)


class Document(NamedTuple):
    title: str | None
    body: str | None
    tags: list[str] | None
    image: int | None
    embedding: list[float] | None


def changed(words: list[str], rng: random.Random) -> list[str]:
    words = list(words)
    for _ in range(rng.randrange(3)):
        words[rng.randrange(len(words))] = rng.choice(WORDS)
    return words


def copy_of(document: Document, rng: random.Random) -> Document:
    title, body, tags, image, embedding = document
    if image is not None:
        for bit in rng.sample(range(64), rng.randrange(7)):
            image ^= 1 << bit
    copy = Document(
        title and " ".join(changed(title.split(), rng)),
        body and " ".join(changed(body.split(), rng)),
        tags and changed(tags, rng),
        image,
        embedding and [number + rng.gauss(0, 0.15) for number in embedding],
    )
    lost = rng.sample(Document._fields, rng.randrange(3))
    return copy._replace(**dict.fromkeys(lost))


def clumps(seed: int, count: int) -> list[Document]:
    """Documents of which two thirds are changed copies of others, many without a field."""
    rng = random.Random(seed)
    documents: list[Document] = []
    while len(documents) < count:
        if len(documents) >= count // 3:
            documents.append(copy_of(rng.choice(documents), rng))
            continue
        title, body = (" ".join(rng.choices(WORDS, k=size)) for size in (6, 20))
        embedding = [rng.gauss(0, 1) for _ in range(5)]
        tags = rng.sample(WORDS, 5)
        documents.append(Document(title, body, tags, rng.getrandbits(64), embedding))
    return documents


def table_of(documents: list[Document]) -> pa.Table:
    return pa.table(
        {
            "id": [f"d{number}" for number in range(len(documents))],
            "title": pa.array([row.title for row in documents], pa.string()),
            "body": pa.array([row.body for row in documents], pa.string()),
            "tags": pa.array([row.tags for row in documents], pa.list_(pa.string())),
            "image": pa.array([row.image for row in documents], pa.uint64()),
            "embedding": pa.array([row.embedding for row in documents], pa.list_(pa.float64())),
        }
    )


def overlap(a: list[str], b: list[str]) -> float:
    return len(set(a) & set(b)) / len(set(a) | set(b))


def cosine(a: list[float], b: list[float]) -> float:
    return sum(map(lambda x, y: x * y, a, b)) / math.hypot(*a) / math.hypot(*b)


COMPARISONS: dict[str, Callable[[Any, Any], float]] = {
    "title": lambda a, b: overlap(a.split(), b.split()),
    "body": lambda a, b: overlap(a.split(), b.split()),
    "tags": overlap,
    "image": lambda a, b: 1 - (a ^ b).bit_count() / 64,
    "embedding": cosine,
}


def similarity_of(name: str, a: Document, b: Document) -> float:
    """The similarity of a field. It is -1 if a document lacks the field."""
    first, second = getattr(a, name), getattr(b, name)
    return -1 if first is None or second is None else COMPARISONS[name](first, second)


@cache
def compiled(condition: str) -> tuple[CodeType, tuple[str, ...]]:
    """Returns a condition, and the fields that it names."""
    code = compile(condition, "<condition>", "eval")
    return code, code.co_names


def fulfils(condition: str, a: Document, b: Document) -> bool:
    code, names = compiled(condition)
    holds = {name: similarity_of(name, a, b) >= LIMITS[name] for name in names}
    return bool(eval(code, {}, holds))


def fields_of(condition: str) -> list[str]:
    return [field for name, field in FIELDS.items() if name in condition]


def similar_pairs(condition: str, documents: list[Document]) -> set[tuple[int, int]]:
    numbered = combinations(enumerate(documents), 2)
    return {(a, b) for (a, first), (b, second) in numbered if fulfils(condition, first, second)}


def listed(pairs: pa.Table) -> set[tuple[int, int]]:
    a, b = pairs["id_a"].to_pylist(), pairs["id_b"].to_pylist()
    return {(int(one[1:]), int(other[1:])) for one, other in zip(a, b, strict=True)}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("small_corpus", [10, 10_000])
def test_pairs_are_those_of_brute_force(
    condition: str, small_corpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", small_corpus)
    documents = clumps(1, 120)
    options = COMPLETE if small_corpus == 10 and "t" in condition else {"shingle": "words:1"}
    has_shingles = any(name in condition for name in ("title", "body", "tags"))
    if not has_shingles:
        options = {"recall": 0.9999}
    result = nk.pairs(
        table_of(documents),
        id="id",
        fields=fields_of(condition),
        accept=condition,
        expand_exact=True,
        **options,
    )
    expected = similar_pairs(condition, documents)
    assert listed(result.pairs.arrow) == expected
    assert len(expected) > 20


def test_similarity_is_the_highest_of_the_fields_that_find_the_pair() -> None:
    documents = clumps(2, 60)
    result = nk.pairs(
        table_of(documents),
        id="id",
        fields=fields_of("title or image"),
        accept="title or image",
        shingle="words:1",
    )
    rows = result.pairs.arrow.to_pylist()
    assert "distance" not in rows[0]
    for row in rows:
        first, second = (documents[int(row[name][1:])] for name in ("id_a", "id_b"))
        found = {name: similarity_of(name, first, second) for name in ("title", "image")}
        reached = [value for name, value in found.items() if value >= LIMITS[name]]
        assert row["similarity"] == max(reached)
        assert (row["estimate"] is None) == (first.title is None or second.title is None)


@pytest.mark.parametrize("options", [{"across": "part"}, {"block_by": "part"}])
@pytest.mark.parametrize("small_corpus", [10, 10_000])
def test_only_pairs_of_allowed_documents_are_found(
    options: dict[str, Any], small_corpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", small_corpus)
    documents = clumps(3, 120)
    parts = [number % 3 for number in range(len(documents))]
    table = table_of(documents).append_column("part", pa.array(parts))
    condition = "title or image or tags and embedding"
    result = nk.pairs(
        table, id="id", fields=fields_of(condition), accept=condition, **COMPLETE, **options
    )
    is_across = "across" in options
    assert listed(result.pairs.arrow) == {
        (a, b)
        for a, b in similar_pairs(condition, documents)
        if (parts[a] != parts[b]) == is_across
    }


def test_documents_of_hot_buckets_are_removed_against_one_that_fulfils_the_condition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 10)
    monkeypatch.setattr("nearkin.engine.options.DEFAULT_PAIR_BUDGET", 50)
    documents = [
        row._replace(title="the same title") if number % 2 else row._replace(title=None)
        for number, row in enumerate(clumps(4, 200))
    ]
    condition = "title or image"
    result = nk.dedup(
        table_of(documents),
        id="id",
        fields=fields_of(condition),
        accept=condition,
        hot_bucket_size=5,
        fanout=3,
        **COMPLETE,
    )
    assert result.statistics["removed_near"] >= 99
    for row in result.clusters.arrow.to_pylist():
        document, leader = (documents[int(row[name][1:])] for name in ("id", "cluster"))
        assert row["kept"] or row["kind"] == "exact" or fulfils(condition, document, leader)


CONDITION = "title and body or image or tags and embedding"


QUIET = ["--max-removed", "1", "--quiet"]
"""Options of runs over corpora that consist of copies."""


def options_of(condition: str) -> list[str]:
    options = [word for field in fields_of(condition) for word in ("--field", field)]
    return [*options, "--accept", condition, "--shingle", "words:1", "--id", "id", *QUIET]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow"])
def test_files_have_the_result_of_a_table(suffix: str, tmp_path: Path) -> None:
    documents = clumps(5, 150)
    table = table_of(documents)
    source = tmp_path / f"docs.{suffix}"
    faults = 0
    if suffix == "jsonl":
        bad = [
            {"id": "x1", "embedding": [0, 0, 0, 0, 0]},
            {"id": "x2", "embedding": [1, 2]},
            {"id": "x3", "tags": ["a", 1]},
            {"id": "x4", "image": "xyz"},
            {"id": "x5", "title": ["a"]},
        ]
        faults = len(bad)
        source.write_text("\n".join(map(json.dumps, [*table.to_pylist(), *bad])))
    elif suffix == "arrow":
        with pa.ipc.new_file(source, table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, source)
    out = tmp_path / "out"
    assert run(["dedup", str(source), *options_of(CONDITION), "--out", str(out)]) == 0
    record = json.loads((out / "run.json").read_text())
    assert record["counts"]["rejected"] == faults
    fields = [*fields_of("title body image")[:2], "tags:jaccard/tokens>=0.7", FIELDS["image"]]
    assert record["parameters"]["fields"] == [*fields, "embedding:cosine/5>=0.97"]
    direct = nk.dedup(
        table, id="id", fields=fields_of(CONDITION), accept=CONDITION, shingle="words:1"
    )
    found = pq.read_table(out / "clusters.parquet").select(["id", "cluster"]).to_pylist()
    assert found == direct.clusters.arrow.select(["id", "cluster"]).to_pylist()
    numbers = {row["id"]: int(row["id"][1:]) for row in found}
    for row in found:
        if row["id"] != row["cluster"]:
            document, leader = documents[numbers[row["id"]]], documents[numbers[row["cluster"]]]
            assert fulfils(CONDITION, document, leader)
    kept = [numbers[row["id"]] for row in found if row["id"] == row["cluster"]]
    assert not similar_pairs(CONDITION, [documents[number] for number in kept])
    assert len(kept) < 120


@pytest.mark.parametrize(
    "place",
    [
        "nearkin.engine.sketching.SketchWriter.checkpoint",
        pytest.param("nearkin.engine.run.write_pairs", marks=pytest.mark.full),
        "nearkin.engine.run.write_scored_pairs",
        pytest.param("nearkin.engine.run.cluster_documents", marks=pytest.mark.full),
    ],
)
def test_a_run_that_was_interrupted_in_any_stage_is_resumed(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 10)
    monkeypatch.setattr("nearkin.engine.sketching.SEGMENT_SECONDS", 0.0)
    monkeypatch.setattr("nearkin.corpus.formats.parquet.BATCH_ROWS", 30, raising=False)
    source = tmp_path / "docs.parquet"
    pq.write_table(table_of(clumps(6, 120)), source)
    given = ["dedup", str(source), *options_of(CONDITION), "--memory", "512MiB"]

    def fail(*_: object, **__: object) -> None:
        raise RunError("interrupted")

    with monkeypatch.context() as interrupted:
        interrupted.setattr(place, fail)
        assert run([*given, "--out", str(tmp_path / "out")]) == 1
    assert run([*given, "--out", str(tmp_path / "out"), "--resume"]) == 0
    assert run([*given, "--out", str(tmp_path / "whole"), "--workers", "1"]) == 0
    clusters = [pq.read_table(tmp_path / name / "clusters.parquet") for name in ("out", "whole")]
    assert clusters[0].equals(clusters[1])


def test_pairs_that_do_not_fit_into_memory_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 10)
    documents = clumps(7, 150)
    monkeypatch.setattr("nearkin.engine.run.BYTES_PER_PAIR", 1 << 20)
    monkeypatch.setattr("nearkin.engine.candidates.BYTES_PER_KEY", 1 << 21)
    result = nk.pairs(
        table_of(documents),
        id="id",
        fields=fields_of(CONDITION),
        accept=CONDITION,
        expand_exact=True,
        memory="512MiB",
        **COMPLETE,
    )
    assert listed(result.pairs.arrow) == similar_pairs(CONDITION, documents)


@pytest.mark.parametrize(
    ("column", "field", "message"),
    [
        (pa.array([1.5, 2.5]), "x:jaccard>=0.5", "'x' is double, not text"),
        (pa.array([{"a": 1}] * 2), "x:jaccard>=0.5", "'x' is struct.*not text"),
        (pa.array([[1.5]] * 2), "x:jaccard>=0.5", "'x' is list<.*not lists of text"),
        (pa.array(["a", "b"]), "x:jaccard/tokens>=0.5", "'x' is string, not lists of text"),
        (pa.array(["a", "b"]), "x:cosine>=0.5", "'x' is string, not lists of numbers"),
        (pa.array([["a"]] * 2), "x:cosine/3>=0.5", "'x' is list<.*not lists of numbers"),
        (pa.array([None] * 2), "x:cosine>=0.5", "'x' .*numbers"),
        (pa.array([[1.5]] * 2), "x:hamming<=3", "not fingerprints"),
        (pa.array([[]] * 2, pa.list_(pa.float32())), "x:cosine>=0.5", "name it in .*x:cosine/384"),
    ],
)
def test_columns_of_other_types_are_errors(column: pa.Array, field: str, message: str) -> None:
    table = pa.table({"title": ["a", "b"], "x": column})
    with pytest.raises(UsageError, match=message):
        nk.dedup(table, fields=["title:jaccard>=0.5", field], accept="title or x")


@pytest.mark.parametrize("field", ["x:jaccard>=0.5", "x:jaccard/tokens>=0.5", "x:cosine/3>=0.5"])
def test_a_column_of_nulls_is_a_field_that_all_documents_lack(field: str) -> None:
    table = pa.table({"title": ["a b", "a b c", "d"], "x": pa.nulls(3)})
    fields = ["title:jaccard>=0.5", field]
    either = nk.dedup(table, fields=fields, accept="title or x", shingle="words:1")
    assert either.kept.sum() == 2
    assert nk.dedup(table, fields=fields, shingle="words:1").kept.all()


def test_another_threshold_has_no_meaning_for_fields() -> None:
    result = nk.dedup({"a": ["x y", "x y z"]}, fields=["a:jaccard>=0.5"], shingle="words:1")
    with pytest.raises(UsageError, match="each of which has a limit of its own"):
        result.rethreshold(0.9)
    assert not result.report_data.what_if


def test_encoded_and_extension_columns_are_lists_too() -> None:
    tags = pa.array([["a", "b"], ["a", "b"], ["c"]])
    dictionary = pa.array(["a", "b", "a", "b", "c"]).dictionary_encode()
    encoded = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5], pa.int32()), dictionary)
    fixed = pa.array([[1, 0], [1, 0], [0, 1]], pa.list_(pa.float32(), 2))
    for lists in (tags, encoded, tags.cast(pa.large_list(pa.string()))):
        table = pa.table({"tags": lists, "v": fixed})
        result = nk.dedup(table, fields=["tags:jaccard>=0.5", "v:cosine>=0.9"])
        assert result.kept.tolist() == [True, False, True]


def test_integers_of_zero_are_fingerprints_in_json(tmp_path: Path) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text('{"a": 0, "t": "x"}\n{"a": 1, "t": "y"}\n{"a": "", "t": "z"}\n')
    result = nk.dedup(source, fields=["a:hamming<=1", "t:jaccard>=0.9"], accept="a or t")
    assert result.kept.tolist() == [True, False, True]


def test_many_fields_and_alternatives_are_bounded() -> None:
    table = pa.table({f"c{n}": [f"a{n} b", f"a{n} b", "z"] for n in range(16)})
    fields = [f"c{n}:jaccard>=0.5" for n in range(16)]
    columns = [f"c{n}" for n in range(16)]
    result = nk.dedup(table, fields=fields, accept=" or ".join(columns), shingle="words:1")
    assert result.kept.tolist() == [True, False, True]
    pairs = [f"({a} or {b})" for a, b in zip(columns[::2], columns[1::2], strict=True)]
    with pytest.raises(UsageError, match="more than 64 alternatives"):
        nk.dedup(table, fields=fields, accept=" and ".join(pairs))


def halves(seed: int) -> tuple[list[Document], pa.Table, pa.Table]:
    """Documents, the first ones as the new ones and the others as a reference."""
    documents = clumps(seed, 160)
    table = table_of(documents)
    return documents, table.slice(0, 70), table.slice(70)


@pytest.mark.parametrize("condition", [*CONDITIONS[:2], CONDITIONS[4], CONDITIONS[6]])
@pytest.mark.parametrize("small_corpus", [10, 10_000])
def test_documents_that_repeat_the_reference_are_those_of_brute_force(
    condition: str, small_corpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", small_corpus)
    monkeypatch.setattr("nearkin.engine.reference.SMALL_CORPUS", small_corpus)
    has_shingles = any(name in condition for name in ("title", "body", "tags"))
    options = COMPLETE if has_shingles else {"recall": 0.9999}
    documents, new, reference = halves(8)
    result = nk.dedup(
        new,
        id="id",
        against=reference,
        fields=fields_of(condition),
        accept=condition,
        **options,
    )
    old = range(70, len(documents))
    rows = result.clusters.arrow.to_pylist()
    expected = {
        number
        for number in range(70)
        if any(fulfils(condition, documents[number], documents[other]) for other in old)
    }
    removed = {int(row["id"][1:]) for row in rows if row["matched_in"] == "reference"}
    assert removed == expected
    assert 5 < len(removed) < 60
    for row in rows:
        if not row["kept"]:
            other = documents[int(row["duplicate_of"][1:])]
            assert fulfils(condition, documents[int(row["id"][1:])], other)
    kept = [documents[int(row["id"][1:])] for row in rows if row["kept"]]
    assert not similar_pairs(condition, kept)


def test_signatures_of_fields_are_saved_as_a_reference_and_as_an_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 10)
    monkeypatch.setattr("nearkin.engine.reference.SMALL_CORPUS", 10)
    documents, new, reference = halves(9)
    pq.write_table(new, tmp_path / "new.parquet")
    pq.write_table(reference, tmp_path / "old.parquet")
    options = options_of(CONDITION)

    def dedup(source: str, out: str, *others: str) -> list[dict[str, Any]]:
        given = ["dedup", str(tmp_path / source), *others, "--out", str(tmp_path / out)]
        assert run(given) == 0, capsys.readouterr().err
        return pq.read_table(tmp_path / out / "clusters.parquet").to_pylist()

    old = dedup("old.parquet", "saved", *options, "--save-signatures", "--save-hashes")
    by_copies = dedup("new.parquet", "copies", *options, "--against", str(tmp_path / "saved/kept"))
    again = [word for word in options if word not in ("--id", "id")]
    stricter = [word.replace("hamming<=4", "hamming<=0") for word in again]
    direct = dedup("old.parquet", "direct", *stricter, "--id", "id")
    sketched: list[str] = []
    sketch = sketching.sketch_corpus

    def record_names(corpus: Any, *rest: Any, **named: Any) -> Any:
        sketched.extend(corpus.names)
        return sketch(corpus, *rest, **named)

    monkeypatch.setattr(sketching, "sketch_corpus", record_names)
    read: list[str] = []
    read_slices = FileCorpus.read_slices

    def record_reading(corpus: FileCorpus, number: int, *rest: Any, **other: Any) -> Any:
        read.append(corpus.files[number].name)
        return read_slices(corpus, number, *rest, **other)

    with monkeypatch.context() as reading:
        reading.setattr(FileCorpus, "read_slices", record_reading)
        by_run = dedup("new.parquet", "run", *options, "--against", str(tmp_path / "saved"))
    assert sketched == ["new.parquet"]
    assert set(read) == {"new.parquet"}
    assert by_run == by_copies
    (tmp_path / "saved" / "signatures" / "set-words").unlink()
    assert dedup("new.parquet", "texts", *options, "--against", str(tmp_path / "saved")) == by_run
    sketched.pop()
    assert {"reference", "this run"} <= {row["matched_in"] for row in by_run}
    assert dedup("saved", "stricter", *stricter) == direct != old
    assert sketched == ["new.parquet"]
    kept = {int(row["id"][1:]) for row in old if row["kept"]}
    removed = {int(row["id"][1:]) for row in by_run if row["matched_in"] == "reference"}
    assert removed == {
        number
        for number in range(70)
        if any(fulfils(CONDITION, documents[number], documents[other]) for other in kept)
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("title", "has the signatures of the fields title:jaccard>=0.5, body"),
        ("title and body", "under the condition 'title or body'"),
        ("", "has the signatures of the fields title:jaccard>=0.5, body"),
    ],
)
def test_saved_signatures_of_other_fields_are_refused(
    fields: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "docs.parquet"
    pq.write_table(table_of(clumps(10, 20)), source)
    saved = tmp_path / "saved"
    options = options_of("title or body")
    assert run(["dedup", str(source), *options, "--save-signatures", "--out", str(saved)]) == 0
    again = []
    if fields:
        again = [word for word in options_of(fields) if word not in ("--id", "id")]
    assert run(["dedup", str(saved), *again, "--out", str(tmp_path / "out")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_the_kept_copies_of_a_run_over_one_column_are_a_reference_of_fields(
    tmp_path: Path,
) -> None:
    documents, new, reference = halves(11)
    pq.write_table(new, tmp_path / "new.parquet")
    pq.write_table(reference, tmp_path / "old.parquet")
    saved = tmp_path / "saved"
    given = ["dedup", str(tmp_path / "old.parquet"), "--vector", "embedding", "--id", "id"]
    assert run([*given, "--save-signatures", *QUIET, "--out", str(saved)]) == 0
    out = tmp_path / "out"
    given = ["dedup", str(tmp_path / "new.parquet"), *options_of("title or image")]
    assert run([*given, "--against", str(saved), "--out", str(out)]) == 0
    kept = [int(id[1:]) for id in pq.read_table(saved / "kept" / "old.parquet")["id"].to_pylist()]
    expected = {
        f"d{number}"
        for number in range(70)
        if any(fulfils("title or image", documents[number], documents[old]) for old in kept)
    }
    rows = pq.read_table(out / "clusters.parquet").to_pylist()
    assert {row["id"] for row in rows if row["matched_in"] == "reference"} == expected


@pytest.mark.parametrize(
    ("condition", "bands"), [("title or body", ["3", "3"]), ("body and image", ["64", "1"])]
)
def test_an_audit_counts_the_pairs_of_brute_force(
    condition: str, bands: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 10)
    # An audit does not count pairs of exact duplicates for the recall.
    names = [field.split(":")[0] for field in fields_of(condition)]
    unique = {str([getattr(row, name) for name in names]): row for row in clumps(12, 120)}
    documents = list(unique.values())
    source = tmp_path / "docs.parquet"
    pq.write_table(table_of(documents), source)
    out = tmp_path / "out"
    options = [*options_of(condition), "--bands", bands[0], "--rows", bands[1], "--k", "64"]
    assert run(["dedup", str(source), *options, "--audit", "--out", str(out)]) == 0
    audit = json.loads((out / "run.json").read_text())["audit"]
    expected = similar_pairs(condition, documents)
    found = listed(pq.read_table(out / "pairs.parquet"))
    assert found <= expected
    assert audit["recall"]["total"] == len(expected)
    assert audit["recall"]["hits"] == len(found)
    assert audit["precision"]["value"] == 1
    assert (len(found) < len(expected)) == (bands[1] == "3")
    predicted = [entry["predicted"] for entry in audit["bins"]]
    assert all(0 < value <= 1 for value in predicted)
    assert (min(predicted) < 0.9) == (bands[1] == "3")
