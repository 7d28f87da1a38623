"""Tests of an index as the reference of a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run as command
from nearkin.corpus import Columns
from nearkin.engine import reference
from nearkin.engine.options import RunOptions
from nearkin.errors import IncompatibleError, MissingIndexError, NearkinError, UsageError
from nearkin.reports.files import read_report
from nearkin.runs import index_reference
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runs.matching import MatchOutput, match_files
from nearkin.runs.run_record import RunRecord
from nearkin.runtime.progress import Silent
from tests.engine.reference_oracle import (
    dedup_by_oracle,
    make_texts,
    read_rows,
    share_texts,
    similarity_of,
)

THRESHOLD = 0.6
OLD = make_texts(31, 60)
STORED = pa.table({"id": [f"s{number}" for number in range(len(OLD))], "text": OLD})
NEW = pa.table({"id": [f"d{number}" for number in range(40)], "text": share_texts(31, OLD, 40)})


@pytest.fixture
def store(tmp_path: Path) -> str:
    """An index that finds each of its documents, with bands that miss no similar pair."""
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    with nk.Index.open(url, threshold=THRESHOLD, postings="all", bands=128, rows=1) as index:
        index.upsert_many("web", OLD, STORED["id"].to_pylist())
        index.upsert("other", "a document of another scope that nobody else has", id="x")
    pq.write_table(NEW, tmp_path / "new.parquet")
    return url


def dedup(folder: Path, out: str, against: str | tuple[str, ...], **other: Any) -> RunRecord:
    names = [name for name in other if name in RunOptions.__dataclass_fields__]
    options = {name: other.pop(name) for name in names}
    if "accept" not in options:
        options = {"threshold": THRESHOLD, **options}
    fields = {"columns": Columns(id="id"), "scope": "web", **other}
    job = Job(
        (str(folder / "new.parquet"),),
        folder / out,
        fields.pop("columns"),
        RunOptions(**options),
        against=(against,) if isinstance(against, str) else against,
        **fields,
    )
    return run_dedup(job, Silent())


def read_clusters(folder: Path, out: str) -> pa.Table:
    return pq.read_table(folder / out / "clusters.parquet")


@pytest.mark.parametrize("only", [False, True])
def test_documents_of_an_index_are_a_reference(tmp_path: Path, store: str, only: bool) -> None:
    with nk.Index.open(store) as index:
        index.export(tmp_path / "before.parquet")
    record = dedup(tmp_path, "out", store, only_against=only)
    rows = read_rows(read_clusters(tmp_path, "out"))
    want = dedup_by_oracle(NEW, STORED, THRESHOLD, only=only)
    # Of equally similar documents the index answers with the oldest one.
    assert [row._replace(duplicate_of=None) for row in rows] == [
        row._replace(duplicate_of=None) for row in want
    ]
    matches = MatchOutput(tmp_path / "matches")
    match_files((str(tmp_path / "new.parquet"),), Columns(id="id"), store, "web", matches)
    matched = {
        row["id"]: (row["duplicate_of"], row["similarity"])
        for row in pq.read_table(tmp_path / "matches" / "matches.parquet").to_pylist()
        if not row["kept"]
    }
    removed = {row.id: row for row in rows if row.matched_in == "reference"}
    assert {id: (row.duplicate_of, row.similarity) for id, row in removed.items()} == matched
    assert 5 < len(matched) < 35
    assert record.counts["removed_reference"] == len(matched)
    content = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert (content["against"]["paths"], content["against"]["scope"]) == ([store], "web")
    with nk.Index.open(store) as index:
        index.export(tmp_path / "after.parquet")
    before = pq.read_table(tmp_path / "before.parquet")
    assert pq.read_table(tmp_path / "after.parquet") == before


@pytest.mark.parametrize(
    "condition",
    [
        {"accept": "jaccard >= 0.6 and witness >= 10 and length_ratio <= 1"},
        {"accept": "jaccard >= 0.6 and says_all"},
        pytest.param({"max_lost": 0.25}, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_condition_holds_for_an_index_as_for_its_files(
    condition: dict[str, Any], tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(STORED, tmp_path / "old.parquet")
    want = dedup(tmp_path, "files", str(tmp_path / "old.parquet"), scope=None, **condition)
    both = (store, str(tmp_path / "old.parquet"))

    def fail(*_: object) -> None:
        raise RuntimeError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(reference._ReferenceComparison, "match", fail)
        with pytest.raises(RuntimeError):
            dedup(tmp_path, "out", store, **condition)
    with nk.Index.open(store) as index:
        index.upsert("web", NEW["text"][0].as_py(), id="later")
    record = dedup(tmp_path, "out", store, resume=True, **condition)
    rows = read_clusters(tmp_path, "out").to_pylist()
    assert rows[0]["kind"] == "exact"
    assert rows[1:] == read_clusters(tmp_path, "files").to_pylist()[1:]
    assert record.stats.against.documents == len(OLD) + 2
    assert 3 < want.counts["removed_reference"] <= record.counts["removed_reference"] < 35
    assert record.lost["unmeasured"] == 0
    lossy = read_report(tmp_path / "out").lost.worst
    assert {example.text_kept for example in lossy if example.in_reference} <= {*OLD}
    dedup(tmp_path, "both", both, **condition)
    assert read_clusters(tmp_path, "both").to_pylist()[1:] == rows[1:]


def test_condition_needs_the_texts_of_an_index(tmp_path: Path) -> None:
    pq.write_table(NEW, tmp_path / "new.parquet")
    url = f"sqlite:///{tmp_path / 'hashes.db'}"
    with nk.Index.open(url, threshold=THRESHOLD, store_text=False) as index:
        index.upsert("web", "a b c d", id="a")
    with pytest.raises(IncompatibleError, match=r"keeps no texts.*without store_text=False"):
        dedup(tmp_path, "out", url, accept="jaccard >= 0.7 and numbers_equal")
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("least", [0.2, 0.1])
def test_related_documents_of_an_index_are_those_of_its_files(
    tmp_path: Path, store: str, least: float
) -> None:
    """Representatives that differ, of an index whose setting is that of the run or a lower one."""
    leaders: list[tuple[str, str]] = []
    for id, text in zip(STORED["id"].to_pylist(), OLD, strict=True):
        if text and all(similarity_of(text, other) < THRESHOLD for _, other in leaders):
            leaders.append((id, text))
    url = f"sqlite:///{tmp_path / 'related.db'}"
    settings: dict[str, Any] = {"related": least, "bands": 128, "rows": 1}
    with nk.Index.open(url, threshold=THRESHOLD, **settings) as index:
        index.upsert_many("web", [text for _, text in leaders], [id for id, _ in leaders])
    pq.write_table(
        pa.table({"id": [id for id, _ in leaders], "text": [text for _, text in leaders]}),
        tmp_path / "leaders.parquet",
    )
    # Matches of the index below the threshold of the run are related, too.
    options = {"threshold": 0.7, "related": 0.2}
    dedup(tmp_path, "index", url, **options)
    dedup(tmp_path, "files", str(tmp_path / "leaders.parquet"), scope=None, **options)
    names = ["id", "kept", "matched_in", "similarity", "outcome"]
    index_clusters = read_clusters(tmp_path, "index").select(names)
    assert index_clusters == read_clusters(tmp_path, "files").select(names)
    related = pq.read_table(tmp_path / "index" / "related.parquet")
    # The index names at most ten representatives of a document, beside its match.
    assert related == pq.read_table(tmp_path / "files" / "related.parquet")
    assert set(related["matched_in"].to_pylist()) == {"reference", "this run"}


def test_an_index_that_would_miss_related_documents_is_refused(tmp_path: Path, store: str) -> None:
    with pytest.raises(IncompatibleError, match=r"was created without `related`.*related=0\.5"):
        dedup(tmp_path, "out", store, related=0.5)
    url = f"sqlite:///{tmp_path / 'related.db'}"
    nk.Index.open(url, threshold=THRESHOLD, related=0.5).close()
    with pytest.raises(IncompatibleError, match=r"no related documents below 0\.5.*from 0\.4"):
        dedup(tmp_path, "out", url, related=0.4)
    assert not (tmp_path / "out").exists()


def test_an_index_and_files_are_compared_together(tmp_path: Path, store: str) -> None:
    pq.write_table(STORED.slice(0, 30), tmp_path / "old.parquet")
    dedup(tmp_path, "index", store)
    dedup(tmp_path, "both", (store, str(tmp_path / "old.parquet")))
    names = ["id", "kept", "matched_in", "similarity"]
    index = read_clusters(tmp_path, "index").select(names)
    assert read_clusters(tmp_path, "both").select(names) == index


def test_a_higher_threshold_of_the_run_counts(tmp_path: Path, store: str) -> None:
    dedup(tmp_path, "out", store, threshold=0.9)
    want = dedup_by_oracle(NEW, STORED, 0.9)
    rows = read_rows(read_clusters(tmp_path, "out"))
    assert [(row.id, row.matched_in) for row in rows] == [(row.id, row.matched_in) for row in want]


def test_the_library_takes_the_url_of_an_index(tmp_path: Path, store: str) -> None:
    dedup(tmp_path, "out", store)
    for data in (NEW, str(tmp_path / "new.parquet")):
        result = nk.dedup(data, id="id", threshold=THRESHOLD, against=store, scope="web")
        names = ["id", "kept", "duplicate_of", "matched_in"]
        want = read_clusters(tmp_path, "out").select(names)
        assert result.clusters.arrow.select(names) == want
    with pytest.raises(UsageError, match=r"scope='web' is the scope of an index.*pyarrow"):
        nk.dedup(NEW, id="id", against=STORED, scope="web")


def test_vectors_and_distances_are_compared_with_an_index(tmp_path: Path) -> None:
    vectors = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.9, 0.1, 0.0]]
    spec = nk.Spec(measure="cosine", unit="vector", n=3)
    url = f"sqlite:///{tmp_path / 'vectors.db'}"
    with nk.Index.open(url, spec, 0.95) as index:
        index.upsert("default", vectors[0], "v")
    data = pa.table({"id": list("abc"), "vector": vectors})
    result = nk.dedup(data, id="id", vector="vector", threshold=0.95, against=url)
    assert result.kept.tolist() == [False, True, False]
    url = f"sqlite:///{tmp_path / 'bits.db'}"
    with nk.Index.open(url, nk.Spec(measure="simhash"), distance=3) as index:
        index.upsert("default", "one two three four five", "t")
    data = {"id": ["a", "b"], "text": ["one two three four five!", "something else altogether"]}
    options: dict[str, Any] = {"id": "id", "measure": "simhash", "against": url}
    assert nk.dedup(data, distance=3, **options).kept.tolist() == [False, True]
    with pytest.raises(
        IncompatibleError, match=r"finds no similarities below.*run with distance=3"
    ):
        nk.dedup(data, distance=5, **options)
    with pytest.raises(IncompatibleError, match="compares documents by their distance"):
        nk.dedup(data, threshold=0.99, **options)


def index_of_both_kinds(folder: Path) -> str:
    url = f"sqlite:///{folder / 'both.db'}"
    spec = nk.Spec(measure="cosine", unit="vector", n=3)
    nk.Index.open(url, vector=nk.index_types.VectorEvidence(spec)).close()
    return url


REFUSALS: list[tuple[str, dict[str, Any], type[NearkinError], str]] = [
    (
        "another Spec",
        {"spec": nk.Spec(n=4)},
        IncompatibleError,
        r"has the Spec \S+, whose n is 3, and the run has the Spec \S+, whose n is 4",
    ),
    ("lower threshold", {"threshold": 0.5}, IncompatibleError, r"below 0\.6.*from 0\.5"),
    ("scope", {"scope": "a\0b"}, UsageError, "scope"),
    ("blocks", {"block_by": "id"}, UsageError, "block_by='id' cannot be combined"),
    ("tokens", {"columns": Columns(id="id", text=None, tokens="t")}, UsageError, "lists of tokens"),
    ("column", {"accept": "jaccard >= 0.9 and same(id)"}, UsageError, "such as 'id'"),
    ("containment", {"accept": "safe"}, IncompatibleError, r"add 'and jaccard >= 0\.6'"),
    (
        "condition and related",
        {"accept": "jaccard >= 0.9", "related": 0.5},
        UsageError,
        "finds one of its thresholds at a time",
    ),
    ("value", {"same": "id"}, UsageError, "an index keeps no columns"),
    (
        "no index",
        {"against": "sqlite:///ABSENT/no.db"},
        MissingIndexError,
        "there is no index at sqlite:.*no such file",
    ),
    ("memory", {"against": "memory://"}, MissingIndexError, "it ends with the process"),
    ("both kinds", {"against": "BOTH"}, IncompatibleError, "by texts and vectors"),
    ("no reference", {"against": ()}, UsageError, "scope='web' has no effect without"),
    ("files only", {"against": "OLD"}, UsageError, "`against` names none"),
]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [case[1:] for case in REFUSALS],
    ids=[case[0] for case in REFUSALS],
)
def test_an_index_that_cannot_answer_for_the_run_is_refused_before_anything_is_written(
    tmp_path: Path, store: str, given: dict[str, Any], kind: type[NearkinError], message: str
) -> None:
    tokens = NEW.append_column("t", pa.array([["a"]] * len(NEW)))
    pq.write_table(tokens, tmp_path / "new.parquet")
    pq.write_table(STORED, tmp_path / "old.parquet")
    given = {"against": store, **given}
    places: dict[str, Callable[[], str]] = {
        "BOTH": lambda: index_of_both_kinds(tmp_path),
        "OLD": lambda: str(tmp_path / "old.parquet"),
    }
    against = given.pop("against")
    if against in places:
        against = places[against]()
    if against == "sqlite:///ABSENT/no.db":
        against = f"sqlite:///{tmp_path}/absent/no.db"
    before = sorted(tmp_path.iterdir())
    with pytest.raises(kind, match=message):
        dedup(tmp_path, "out", against, **given)
    assert sorted(tmp_path.iterdir()) == before


def test_the_folder_of_an_index_is_not_replaced(tmp_path: Path, store: str) -> None:
    dedup(tmp_path, "out", store)
    inside = tmp_path / "out" / "kin.db"
    (tmp_path / "kin.db").rename(inside)
    with pytest.raises(UsageError, match="which no nearkin run wrote"):
        dedup(tmp_path, "out", f"sqlite:///{inside}", overwrite=True)
    assert inside.exists()


def test_a_resumed_run_searches_again_and_knows_its_index(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    def fail(*_: object) -> None:
        raise KilledError

    dedup(tmp_path, "want", store)
    with monkeypatch.context() as context:
        context.setattr(index_reference.IndexReference, "_search", fail)
        with pytest.raises(KilledError):
            dedup(tmp_path, "out", store)
    with pytest.raises(UsageError, match="begun with scope='web', and this run has scope='other'"):
        dedup(tmp_path, "out", store, scope="other", resume=True)
    dedup(tmp_path, "out", store, resume=True)
    assert read_clusters(tmp_path, "out") == read_clusters(tmp_path, "want")
    # A finished run stays as it is, whatever the index has become.
    with nk.Index.open(store) as index:
        index.upsert_many("web", NEW["text"].to_pylist()[1:2], ["later"])
    dedup(tmp_path, "out", store, resume=True)
    assert read_clusters(tmp_path, "out") == read_clusters(tmp_path, "want")


def test_the_command_searches_a_scope_and_warns_of_one_without_documents(
    tmp_path: Path, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["dedup", str(tmp_path / "new.parquet"), "--id", "id", "--against", store]
    line += ["--threshold", str(THRESHOLD), "--json"]
    assert command([*line, "--scope", "web", "--out", str(tmp_path / "out")]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["counts"]["removed_reference"] > 5
    assert command([*line, "--out", str(tmp_path / "none")]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["counts"]["removed_reference"] == 0
    assert "the reference has no documents" in facts["warnings"][0]


def test_a_password_of_a_store_is_not_recorded(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    open_index = nk.Index.open

    def open_store(url: str, **other: Any) -> nk.Index:
        opened.append(url)
        return open_index(store, **other)

    monkeypatch.setattr(index_reference.Index, "open", open_store)
    url = "postgresql://kin:hunter2@db/kin"
    dedup(tmp_path, "out", url)
    assert set(opened) == {url}
    for file in tmp_path.joinpath("out").iterdir():
        if file.is_file():
            assert b"hunter2" not in file.read_bytes(), file


@pytest.mark.parametrize(("postings", "kept"), [("leaders", True), ("all", False)])
def test_conditions_compare_representatives_unless_all_documents_are_posted(
    tmp_path: Path, postings: str, kept: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    text = "one two three four five six seven eight nine ten"
    longer = f"{text} eleven twelve"
    with nk.Index.open(url, threshold=0.5, postings=postings) as index:
        index.upsert_many("web", [text, longer], ["short", "long"])
    accept = "jaccard >= 0.5 and containment >= 0.98"
    result = nk.dedup([longer], against=url, scope="web", accept=accept)
    assert result.kept.tolist() == [kept]
