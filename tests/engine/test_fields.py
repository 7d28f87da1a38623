"""Several fields of documents, all of which must be similar, through every door."""

import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.corpus.columns import FieldKind
from nearkin.engine.fields import (
    FieldRule,
    choose_candidate_fields,
    parse_condition,
    parse_fields,
)
from nearkin.engine.settings_file import Settings
from nearkin.errors import RunError, UsageError
from nearkin.stages.measures.fields import FieldsMeasure

WORDS = [f"w{number}" for number in range(40)]
FIELDS = ["title:jaccard>=0.5", "body:jaccard>=0.6", "image:hamming<=4"]
COMPLETE = {"shingle": "words:1", "bands": 64, "rows": 1, "k": 64}
"""Bands of one row: a pair at 0.5 is missed with a probability of 2^-64."""


class Document(NamedTuple):
    title: str | None
    body: str | None
    image: int | None


def changed(text: str | None, rng: random.Random) -> str | None:
    if text is None or rng.random() < 0.05:
        return None
    words = text.split()
    for _ in range(rng.randrange(3)):
        words[rng.randrange(len(words))] = rng.choice(WORDS)
    return " ".join(words)


def clumps(seed: int, count: int) -> list[Document]:
    """Documents of which half are changed copies of others, some without a field."""
    rng = random.Random(seed)
    documents: list[Document] = []
    while len(documents) < count:
        if len(documents) < count // 2:
            title, body = (" ".join(rng.choices(WORDS, k=size)) for size in (6, 20))
            documents.append(Document(title, body, rng.getrandbits(64)))
            continue
        title, body, image = rng.choice(documents)
        if image is not None:
            for bit in rng.sample(range(64), rng.randrange(6)):
                image ^= 1 << bit
        if rng.random() < 0.1:
            image = None
        documents.append(Document(changed(title, rng), changed(body, rng), image))
    return documents


def table_of(documents: list[Document]) -> pa.Table:
    images = [None if row.image is None else f"{row.image:016x}" for row in documents]
    return pa.table(
        {
            "id": [f"d{number}" for number in range(len(documents))],
            "title": pa.array([row.title for row in documents], pa.string()),
            "body": pa.array([row.body for row in documents], pa.string()),
            "image": pa.array(images, pa.string()),
        }
    )


def jaccard(a: str | None, b: str | None) -> float:
    if not a or not b:
        return 0.0
    first, second = set(a.split()), set(b.split())
    return len(first & second) / len(first | second)


def are_similar(a: Document, b: Document) -> bool:
    """The fields of FIELDS, by plain sets."""
    if a.image is None or b.image is None or (a.image ^ b.image).bit_count() > 4:
        return False
    return jaccard(a.title, b.title) >= 0.5 and jaccard(a.body, b.body) >= 0.6


def similar_pairs(documents: list[Document]) -> set[tuple[str, str]]:
    numbered = combinations(enumerate(documents), 2)
    return {
        (f"d{a}", f"d{b}") for (a, first), (b, second) in numbered if are_similar(first, second)
    }


def listed(pairs: pa.Table) -> set[tuple[str, str]]:
    return set(zip(pairs["id_a"].to_pylist(), pairs["id_b"].to_pylist(), strict=True))


@pytest.mark.parametrize("order", [FIELDS, FIELDS[::-1]])
def test_pairs_are_similar_in_all_fields(order: list[str]) -> None:
    documents = clumps(1, 200)
    result = nk.pairs(
        table_of(documents), id="id", fields=order, shingle="words:1", expand_exact=True
    )
    assert listed(result.pairs.arrow) == similar_pairs(documents)
    assert len(similar_pairs(documents)) > 20


EITHER = [*FIELDS, "sound:hamming<=3"]
CONDITION = "body and (title or image and sound)"


def with_sounds(documents: list[Document]) -> pa.Table:
    """Each third document lacks a sound; the others have one of four."""
    sounds = [None if at % 3 == 0 else at % 4 for at in range(len(documents))]
    return table_of(documents).append_column("sound", pa.array(sounds, pa.uint64()))


def fulfils_condition(documents: list[Document], a: int, b: int) -> bool:
    """CONDITION, by plain sets and integers. Sounds differ in at most two bits."""
    first, second = documents[a], documents[b]
    if jaccard(first.body, second.body) < 0.6:
        return False
    if jaccard(first.title, second.title) >= 0.5:
        return True
    if first.image is None or second.image is None or a % 3 == 0 or b % 3 == 0:
        return False
    return (first.image ^ second.image).bit_count() <= 4


def lacks_alternatives(documents: list[Document], at: int) -> bool:
    title, body, image = documents[at]
    return body is None or (title is None and (image is None or at % 3 == 0))


@pytest.mark.parametrize("small_corpus", [10, 10_000])
def test_pairs_fulfil_the_condition_over_fields(
    small_corpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", small_corpus)
    documents = clumps(11, 300)
    result = nk.pairs(
        with_sounds(documents),
        id="id",
        fields=EITHER,
        accept=CONDITION,
        expand_exact=True,
        **COMPLETE,
    )
    expected = {
        (f"d{a}", f"d{b}")
        for a, b in combinations(range(len(documents)), 2)
        if fulfils_condition(documents, a, b)
    }
    assert listed(result.pairs.arrow) == expected
    assert len(expected) > len(similar_pairs(documents)) > 10


def test_removed_documents_fulfil_the_condition_with_the_kept_one(tmp_path: Path) -> None:
    documents = clumps(12, 200)
    source = tmp_path / "docs.parquet"
    pq.write_table(with_sounds(documents), source)
    options = [word for field in EITHER for word in ("--field", field)]
    given = [str(source), "--id", "id", *options, "--accept", CONDITION, "--shingle", "words:1"]
    out = tmp_path / "out"
    assert run(["dedup", *given, "-q", "--out", str(out)]) == 0
    kept: list[int] = []
    for row in pq.read_table(out / "clusters.parquet").to_pylist():
        document, leader = int(row["id"][1:]), int(row["cluster"][1:])
        assert row["kept"] or fulfils_condition(documents, document, leader)
        if row["kept"]:
            kept.append(document)
    assert not any(fulfils_condition(documents, a, b) for a, b in combinations(kept, 2))
    assert len(kept) < 190
    record = json.loads((out / "run.json").read_text())
    assert record["parameters"]["accept"] == CONDITION
    empty = sum(lacks_alternatives(documents, at) for at in range(len(documents)))
    assert record["counts"]["empty"] == empty


@pytest.mark.parametrize("quoted", ['"my ""title"""', '( "my ""title""" )'])
def test_a_column_of_any_name_is_quoted_in_a_condition(quoted: str) -> None:
    table = pa.table({'my "title"': ["a b"] * 3, "or": ["c d", "c d", "e"], "x-y": ["f", "g", "f"]})
    fields = ['my "title":jaccard>=0.5', "or:jaccard>=0.5", "x-y:jaccard>=0.5"]
    accept = f'{quoted} and ("or" or x-y)'
    result = nk.pairs(table, fields=fields, accept=accept, shingle="words:1")
    assert result.pairs.arrow.num_rows == 2


def test_fingerprints_alone_have_a_condition() -> None:
    table = pa.table({"a": [0, 1, 0], "b": [0, 255 << 8, 255], "c": [7, 7, 255 << 20]})
    fields = ["a:hamming<=3", "b:hamming<=2", "c:hamming<=1"]
    result = nk.pairs(table, fields=fields, accept="a and (b or c)")
    assert result.pairs.arrow.num_rows == 1
    assert nk.dedup(table, fields=fields, accept="a and (b or c)").kept.sum() == 2


def test_candidates_of_bands_are_verified_in_all_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 10)
    documents = clumps(2, 400)
    for workers in (1, 2):
        result = nk.pairs(
            table_of(documents),
            id="id",
            fields=FIELDS,
            expand_exact=True,
            workers=workers,
            memory="512MiB",
            **COMPLETE,
        )
        assert listed(result.pairs.arrow) == similar_pairs(documents)


def test_removed_documents_are_similar_to_the_kept_one_in_all_fields() -> None:
    documents = [*clumps(3, 250), *clumps(3, 20)]
    result = nk.dedup(table_of(documents), id="id", fields=FIELDS, shingle="words:1")
    numbers = {f"d{number}": row for number, row in enumerate(documents)}
    kept: list[Document] = []
    for row in result.clusters.arrow.to_pylist():
        document, leader = numbers[row["id"]], numbers[row["cluster"]]
        assert row["kept"] == (row["id"] == row["cluster"])
        assert row["kept"] or are_similar(document, leader)
        assert row["kind"] != "exact" or document == leader
        if row["kept"]:
            kept.append(document)
    assert not any(are_similar(a, b) for a, b in combinations(kept, 2))
    lacking = sum(None in row for row in documents)
    assert result.statistics["empty"] == lacking
    assert result.statistics["removed_exact"] >= 5


def test_equal_values_of_one_field_do_not_make_exact_duplicates() -> None:
    table = pa.table(
        {"title": ["same words here"] * 3, "body": ["a b c d e", "f g h i j", "a b c d e"]}
    )
    result = nk.dedup(table, fields=["title:jaccard>=0.9", "body:jaccard>=0.5"])
    assert result.kept.tolist() == [True, True, False]
    assert result.clusters["kind"].to_pylist() == ["kept", "unique", "exact"]


def test_fields_of_fingerprints_alone_are_compared() -> None:
    documents = clumps(4, 150)
    table = table_of(documents).append_column(
        "sound", pa.array([bytes(16) if row.title else bytes([255] * 16) for row in documents])
    )
    fields = ["image:hamming<=4", "sound:hamming/128<=20"]
    result = nk.pairs(table, id="id", fields=fields, expand_exact=True)
    expected = set()
    for (a, first), (b, second) in combinations(enumerate(documents), 2):
        if first.image is None or second.image is None or bool(first.title) != bool(second.title):
            continue
        if (first.image ^ second.image).bit_count() <= 4:
            expected.add((f"d{a}", f"d{b}"))
    assert listed(result.pairs.arrow) == expected


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_files_have_the_result_of_a_table_and_invalid_values_are_rejected(
    suffix: str, tmp_path: Path
) -> None:
    documents = clumps(5, 120)
    table = table_of(documents)
    bad = pa.table({"id": ["bad"], "title": ["a"], "body": ["b"], "image": ["xyz"]})
    source = tmp_path / f"docs.{suffix}"
    rows = pa.concat_tables([table, bad])
    if suffix == "jsonl":
        source.write_text("\n".join(map(json.dumps, rows.to_pylist())))
    elif suffix == "csv":
        pa.csv.write_csv(rows, source)
    else:
        pq.write_table(rows, source)
    out = tmp_path / "out"
    options = [word for field in FIELDS for word in ("--field", field)]
    given = [str(source), "--id", "id", *options, "--shingle", "words:1", "-q"]
    assert run(["dedup", *given, "--out", str(out)]) == 0
    record = json.loads((out / "run.json").read_text())
    assert record["counts"]["rejected"] == 1
    assert record["parameters"]["fields"] == FIELDS
    expected = nk.dedup(table, id="id", fields=FIELDS, shingle="words:1").clusters.arrow
    found = pq.read_table(out / "clusters.parquet").select(["id", "cluster"]).to_pylist()
    assert found == expected.select(["id", "cluster"]).to_pylist()
    listing = tmp_path / "pairs.parquet"
    assert run(["pairs", *given, "--expand-exact", "--out", str(listing)]) == 0
    assert listed(pq.read_table(listing)) == similar_pairs(documents)
    assert run(["explain", "d0", "d1", "--run", str(out)]) == 0
    assert run(["review", str(out)]) == 2


def test_a_settings_file_names_fields(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('shingle = "words:1"\nfields = ["title:jaccard>=0.5", "image:hamming<=4"]\n')
    table = table_of(clumps(6, 80))
    by_file = nk.dedup(table, id="id", settings=path)
    direct = nk.dedup(
        table, id="id", shingle="words:1", fields=["title:jaccard>=0.5", "image:hamming<=4"]
    )
    assert by_file.kept.tolist() == direct.kept.tolist()
    with pytest.raises(UsageError, match="nearkin dedup and nearkin pairs only"):
        nk.split(table, id="id", settings=path)
    settings = {"shingle": "words:1", "fields": FIELDS, "accept": "title and (body or image)"}
    by_settings = nk.dedup(table, id="id", settings=settings)
    either = nk.dedup(table, id="id", **settings)
    assert by_settings.kept.tolist() == either.kept.tolist() != direct.kept.tolist()
    with pytest.raises(UsageError, match="this field decides nothing"):
        Settings({**settings, "accept": "body or image or title and body"})
    with pytest.raises(UsageError, match="`fields` and `threshold` exclude each other"):
        Settings({"fields": FIELDS, "threshold": 0.5})


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("title:jaccard>=0.9", FieldRule("title", FieldKind.TEXT, 0.9)),
        ("a:b:jaccard >= 1", FieldRule("a:b", FieldKind.TEXT, 1.0)),
        ("tags:jaccard/tokens>=0.8", FieldRule("tags", FieldKind.TOKENS, 0.8)),
        ("image:hamming<=4", FieldRule("image", FieldKind.FINGERPRINT, 4.0, 64)),
        ("image:hamming/256 <= 30", FieldRule("image", FieldKind.FINGERPRINT, 30.0, 256)),
        ("v:cosine>=0.95", FieldRule("v", FieldKind.VECTOR, 0.95)),
        ("v:cosine/384>=0.95", FieldRule("v", FieldKind.VECTOR, 0.95, 384)),
    ],
)
def test_a_field_is_a_column_a_measure_and_a_limit(text: str, rule: FieldRule) -> None:
    assert FieldRule.parse(text) == rule
    assert FieldRule.parse(rule.text) == rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title", "write it as title:jaccard>=0.9"),
        ("", "write it as"),
        (":jaccard>=0.5", "write it as"),
        ("title:jaccard>=x", "write it as"),
        ("title:jacard>=0.5", "did you mean 'jaccard'"),
        ("vector:cosin>=0.9", "did you mean 'cosine'"),
        ("vector:cosine<=0.9", "cosine is compared with >="),
        ("vector:cosine/0>=0.9", "/0 is not a number of bits"),
        ("vector:cosine/tokens>=0.9", "/tokens is not a number of bits"),
        ("vector:cosine/65537>=0.9", "vectors have at most 65,536 numbers"),
        ("vector:cosine>=1.1", "above 0 and at most 1"),
        ("title:jaccard<=0.5", "jaccard is compared with >="),
        ("title:jaccard>0.5", "jaccard is compared with >="),
        ("image:hamming>=4", "hamming is compared with <="),
        ("title:jaccard>=0", "above 0 and at most 1"),
        ("title:jaccard>=1.5", "above 0 and at most 1"),
        ("image:hamming<=32", "a whole number from 0 to 31"),
        ("image:hamming<=1.5", "a whole number from 0 to 31"),
        ("image:hamming/65<=3", "fingerprints of 65 bits are not supported"),
        ("title:jaccard/64>=0.5", "texts have no bits"),
    ],
)
def test_invalid_fields_are_errors(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_fields([text])


@pytest.mark.parametrize(
    ("fields", "accept", "expected"),
    [
        (["a:jaccard>=0.5", "b:jaccard>=0.9", "c:hamming<=1"], "similar", (1,)),
        (["a:jaccard>=0.9", "b:jaccard>=0.9"], "similar", (0,)),
        (["a:hamming<=3", "b:hamming/128<=3"], "similar", (1,)),
        (["a:cosine>=0.99", "b:jaccard/tokens>=0.1", "c:hamming<=0"], "similar", (1,)),
        (["a:jaccard>=0.5", "b:jaccard>=0.9"], "a or b", (1, 0)),
        (["a:hamming<=3", "b:jaccard>=0.5", "c:jaccard>=0.6"], "a and (b or c)", (2, 1)),
        (["a:hamming<=3", "b:hamming/128<=3", "c:hamming<=4"], "a and (b or c)", (0,)),
        (["a:cosine/8>=0.9", "b:hamming<=3", "c:jaccard>=0.6"], "a or b or c", (2, 1, 0)),
        (["a:jaccard>=0.5", "b:jaccard>=0.9", "c:jaccard>=0.8"], "a and b or a and c", (0,)),
    ],
)
def test_candidates_come_from_the_fewest_fields_with_the_highest_thresholds(
    fields: list[str], accept: str, expected: tuple[int, ...]
) -> None:
    rules = parse_fields(fields)
    assert choose_candidate_fields(rules, parse_condition(accept, rules)) == expected


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"text": "title"}, "`fields` and `text` exclude each other"),
        ({"fingerprint": "image"}, "`fields` and `fingerprint` exclude each other"),
        ({"threshold": 0.5}, "`fields` and `threshold` exclude each other"),
        ({"distance": 3}, "`fields` and `distance` exclude each other"),
        ({"measure": "simhash"}, "`fields` and `measure` exclude each other"),
        ({"accept": "safe"}, "unknown field 'safe'; join the fields 'title', 'body', 'image'"),
        ({"accept": "title and body"}, "does not name the field 'image'; add it"),
        ({"accept": "title or title and (body or image)"}, "'body' is similar or not.*leave it"),
        ({"accept": "image or title or body", "probes": 1}, "probes=1 cannot be combined"),
        ({"accept": "image or title or body", "slot_bits": 8}, "slot_bits=8 cannot be combined"),
        ({"fields": [f"c{n}:jaccard>=0.5" for n in range(17)]}, "at most 16"),
        ({"accept": "title and body and imag"}, "did you mean 'image'"),
        ({"accept": "title and body and image", "threshold": 0.5}, "exclude each other"),
        ({"max_lost": 0.1}, "max_lost=0.1 exclude each other"),
        ({"related": 0.1}, "related=0.1 exclude each other"),
        ({"second_measure": "cosine:v:0.9"}, "exclude each other"),
        ({"verify": "estimate"}, "are compared exactly"),
        ({"cluster": "components"}, "give cluster='leaders'"),
        ({"keep": "central"}, "compares by one measure"),
        ({"spec": nk.Spec(measure="simhash")}, "of measure jaccard, not simhash"),
        ({"fields": ["title:jaccard>=0.5"] * 2}, "column 'title' is in two fields"),
        ({"fields": ["nosuch:jaccard>=0.5"]}, "no column 'nosuch'"),
        ({"fields": ["id:hamming<=3"], "shingle": "words:1"}, "no field is a text"),
        ({"fields": ["number:jaccard>=0.5"]}, "column 'number' is int64, not text"),
        ({"fields": ["number:jaccard/tokens>=0.5"]}, "'number' is int64, not lists of text"),
        ({"fields": ["tokens:hamming<=3"]}, "'tokens' is list<.*not fingerprints"),
        ({"fields": ["tokens:cosine>=0.5"]}, "'tokens' is list<.*not lists of numbers"),
    ],
)
def test_contradictions_of_fields_are_errors(parameters: dict[str, Any], message: str) -> None:
    table = table_of(clumps(7, 4)).append_column("number", pa.array(range(4)))
    table = table.append_column("tokens", pa.array([["a", "b"]] * 4))
    with pytest.raises(UsageError, match=message):
        nk.dedup(table, **{"fields": FIELDS, **parameters})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text", "title"), "--field and --text exclude each other"),
        (("--bits", "64"), "--field and --bits exclude each other"),
        (("--blocklist", "BLOCKED"), "--blocklist and --field"),
        (("--field", "title:jaccard>=0.3"), "column 'title' is in two fields"),
    ],
)
def test_contradictory_options_end_a_command_before_anything_is_written(
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = str(tmp_path / "docs.parquet")
    blocked = str(tmp_path / "blocked")
    pq.write_table(table_of(clumps(8, 4)), source)
    assert run(["block", "add", source, "--text", "title", "--list", blocked]) == 0
    words = [word.replace("BLOCKED", blocked) for word in options]
    given = ["dedup", source, "--field", "title:jaccard>=0.5", *words]
    assert run([*given, "--out", str(tmp_path / "out")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert {path.name for path in tmp_path.iterdir()} == {"docs.parquet", "blocked"}


@pytest.mark.parametrize("count", [0, 1])
def test_no_document_and_a_single_one_have_no_pairs(count: int) -> None:
    table = table_of(clumps(9, 2)).slice(0, count)
    assert nk.dedup(table, id="id", fields=FIELDS).kept.tolist() == [True] * count


def test_an_interrupted_run_over_fields_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "docs.parquet"
    pq.write_table(table_of(clumps(10, 60)), source)
    options = [word for field in FIELDS for word in ("--field", field)]
    given = ["dedup", str(source), "--id", "id", *options, "--shingle", "words:1", "-q"]

    def fail(*_: object) -> None:
        raise RunError("interrupted")

    with monkeypatch.context() as interrupted:
        interrupted.setattr(FieldsMeasure, "compare_all", fail)
        assert run([*given, "--out", str(tmp_path / "out")]) == 1
    other = [*given[:-1], "--field", "id:jaccard>=0.1", "--out", str(tmp_path / "out")]
    assert run([*other, "--resume"]) == 2
    assert run([*given, "--out", str(tmp_path / "out"), "--resume"]) == 0
    assert run([*given, "--out", str(tmp_path / "whole")]) == 0
    clusters = [pq.read_table(tmp_path / name / "clusters.parquet") for name in ("out", "whole")]
    assert clusters[0].equals(clusters[1])
