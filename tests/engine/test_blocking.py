"""Tests of runs with a blocklist against brute force."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.engine.options import RunOptions
from nearkin.engine.run import Run
from nearkin.settings.decisions import Decision, Decisions, Verdict
from tests.engine.reference_oracle import make_texts, share_texts


@pytest.fixture(scope="module")
def blocked_texts() -> list[str]:
    """The texts of a blocklist."""
    return make_texts(21, 60)


@pytest.fixture(scope="module")
def texts(blocked_texts: list[str]) -> list[str]:
    """Documents, some of which are like a blocked text; with copies, and an empty one."""
    made = share_texts(21, blocked_texts, 50)
    return [*made, *(text.upper() for text in made[:10]), ""]


def words_of(text: str) -> set[tuple[str, ...]]:
    """The shingles of three words of a text, as an independent computation."""
    words = text.lower().split()
    return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))} if words else set()


def similarities(text: str, blocked: list[str]) -> list[float]:
    """The similarity of a text to each of others."""
    own = words_of(text)
    return [len(own & other) / max(1, len(own | other)) for other in map(words_of, blocked)]


def list_of(texts: list[str], spec: nk.Spec | None = None) -> nk.Blocklist:
    """A blocklist whose entries are named by their positions."""
    blocklist = nk.Blocklist(spec)
    blocklist.add(texts, [str(number) for number in range(len(texts))])
    return blocklist


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bands": 16, "rows": 4},
        {"bands": 16, "rows": 4, "verify": "estimate"},
        {"cluster": "components"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_blocked_documents_and_clusters_of_the_others_equal_brute_force(
    options: dict[str, Any], texts: list[str], blocked_texts: list[str]
) -> None:
    options = {"threshold": 0.6, **options}
    result = nk.dedup(texts, blocklist=list_of(blocked_texts), **options)
    table = result.clusters.arrow.to_pydict()
    best = [similarities(text, blocked_texts) for text in texts]
    is_blocked = [max(row) >= 0.6 for row in best]
    assert 10 < sum(is_blocked) < len(texts) - 10
    assert [kind == "blocked" for kind in table["kind"]] == is_blocked
    assert result.statistics["removed_blocked"] == sum(is_blocked)
    for number, row in enumerate(best):
        if is_blocked[number]:
            assert not table["kept"][number]
            assert table["cluster"][number] == table["id"][number]
            assert table["similarity"][number] == max(row)
            assert row[int(table["blocked_by"][number])] == max(row)
        else:
            assert table["blocked_by"][number] is None
    others = [text for text, is_one in zip(texts, is_blocked, strict=True) if not is_one]
    alone = nk.dedup(others, **options).clusters.arrow.to_pydict()
    for column in ("kept", "similarity", "kind"):
        rest = [value for value, one in zip(table[column], is_blocked, strict=True) if not one]
        assert rest == alone[column]


@pytest.mark.filterwarnings("ignore")
def test_a_blocked_document_is_not_counted_as_one_of_the_reference(
    texts: list[str], blocked_texts: list[str]
) -> None:
    reference = texts[:20]
    result = nk.dedup(texts, blocklist=list_of(blocked_texts), against=reference, threshold=0.6)
    table = result.clusters.arrow.to_pydict()
    places = [
        place
        for place, kind in zip(table["matched_in"], table["kind"], strict=True)
        if kind == "blocked"
    ]
    assert set(places) == {None}
    assert result.statistics["removed_reference"] == table["matched_in"].count("reference") > 0
    counts = result.statistics
    assert (
        counts["removed"]
        == counts["removed_blocked"]
        + counts["removed_reference"]
        + counts["removed_exact"]
        + counts["removed_near"]
    )


@pytest.mark.parametrize(
    "parameters",
    [{"measure": "simhash", "distance": 12}, {"measure": "weighted-jaccard", "threshold": 0.6}],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_runs_of_other_measures_block_what_the_list_matches(
    parameters: dict[str, Any], texts: list[str], blocked_texts: list[str]
) -> None:
    blocklist = list_of(blocked_texts, nk.Spec(measure=parameters["measure"]))
    table = nk.dedup(texts, blocklist=blocklist, **parameters).clusters.arrow.to_pydict()
    asked = {name: value for name, value in parameters.items() if name != "measure"}
    matches = blocklist.match(texts, **asked)
    assert 5 < sum(match is not None for match in matches) < len(texts)
    assert table["blocked_by"] == [match and match.entry for match in matches]


@pytest.mark.filterwarnings("ignore")
def test_an_empty_list_and_one_document_change_nothing() -> None:
    without = nk.dedup(["one text of some words"]).clusters.arrow
    result = nk.dedup(["one text of some words"], blocklist=nk.Blocklist())
    assert result.clusters.arrow.drop_columns(["blocked_by"]) == without
    assert result.statistics["removed_blocked"] == 0
    blocklist = list_of(["one text of some words"])
    assert nk.dedup(["one text of some words"], blocklist=blocklist).kept.tolist() == [False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 5}, "blocklist has the Spec .* whose n is 3"),
        (
            {"fields": ["text:jaccard>=0.5"]},
            "exclude each other: the entries are documents of one column",
        ),
        ({"second_measure": "cosine:v:0.9"}, "exclude each other: .* by one measure"),
    ],
)
def test_options_that_contradict_a_blocklist_are_refused(
    options: dict[str, Any], message: str
) -> None:
    rows = {"text": ["a b c"], "key": ["1"], "v": [[1.0, 0.0]]}
    if "n" in options:
        options = {"spec": nk.Spec(n=5)}
    with pytest.raises(nk.UsageError, match=message):
        nk.dedup(rows, blocklist=list_of(["a b c d"]), **options)


def decide_some(ids: list[str]) -> Decisions:
    """Returns decisions that join and divide chains of documents."""
    same = [(ids[number], ids[number + 3]) for number in range(0, 40, 4)]
    different = [(ids[number], ids[number + 10]) for number in range(1, 40, 4)]
    return Decisions.resolve(
        Decision(a, b, verdict)
        for pairs, verdict in ((same, Verdict.SAME), (different, Verdict.DIFFERENT))
        for a, b in pairs
    )


@pytest.mark.parametrize(
    "options",
    [
        {"same": "key", "decided": True},
        {"decided": True, "cluster": "components", "bands": 16, "rows": 4},
        {"url": "link", "empty": "drop"},
        {"max_lost": 0.2, "decided": True},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_groups_are_those_of_a_run_without_the_blocked_documents(
    options: dict[str, Any], texts: list[str], blocked_texts: list[str]
) -> None:
    """The documents of a group need not have one content, and only some of them are blocked."""
    ids = [f"d{number:02d}" for number in range(len(texts))]
    keys = [str(number % 23) if number % 3 else None for number in range(len(texts))]
    links = [f"http://one.example/{number % 19}" for number in range(len(texts))]
    table = pa.table({"id": ids, "text": texts, "key": keys, "link": links})
    parameters = {"threshold": 0.6, "id": "id", **options}
    if parameters.pop("decided", False):
        parameters["decisions"] = decide_some(ids)
    result = nk.dedup(table, blocklist=list_of(blocked_texts), **parameters)
    rows = result.clusters.arrow.to_pylist()
    is_blocked = [max(similarities(text, blocked_texts)) >= 0.6 for text in texts]
    assert [row["blocked_by"] is not None for row in rows] == is_blocked
    assert [row["kind"] == "blocked" for row in rows] == is_blocked
    rest = [number for number, is_one in enumerate(is_blocked) if not is_one]
    alone = nk.dedup(table.take(rest), **parameters)
    for row in (kept := [rows[number] for number in rest]):
        del row["blocked_by"]
    assert kept == alone.clusters.arrow.to_pylist()
    assert {"same", "blocked"} <= {row["kind"] for row in rows} or "max_lost" in options
    assert result.statistics["removed_blocked"] == sum(is_blocked)


@pytest.mark.parametrize(
    ("options", "similarity"),
    [
        ({"threshold": 0.3}, 0.3),
        ({"threshold": 0.3, "max_lost": 0.1}, 0.3),
        ({"accept": "jaccard >= 0.6 and numbers_equal"}, 0.6),
        ({"accept": "jaccard >= 0.2 and witness >= 5"}, 0.8),
        ({"accept": "contained"}, 0.8),
    ],
)
def test_a_condition_blocks_from_the_similarity_that_it_implies(
    options: dict[str, Any], similarity: float
) -> None:
    assert RunOptions(**options).blocking_threshold == similarity


def test_results_that_a_blocklist_does_not_determine_are_refused() -> None:
    result = nk.dedup(["a b c d", "e f g h"], blocklist=list_of(["a b c d"]))
    with pytest.raises(nk.UsageError, match="blocked entries"):
        result.rethreshold(0.9)


@pytest.fixture
def files(
    tmp_path: Path, texts: list[str], blocked_texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A file of documents and a blocklist in the current folder."""
    monkeypatch.chdir(tmp_path)
    ids = [f"d{number}" for number in range(len(texts))]
    pq.write_table(pa.table({"id": ids, "text": texts}), "docs.parquet")
    list_of(blocked_texts).save("list")
    return tmp_path


ARGUMENTS = ["docs.parquet", "--id", "id", "--threshold", "0.6", "--quiet"]


@pytest.mark.usefixtures("files")
def test_files_of_a_run_say_which_entry_blocked_a_document() -> None:
    assert app.run(["dedup", *ARGUMENTS, "--blocklist", "list", "--out", "out"]) == 0
    record = json.loads(Path("out/run.json").read_text())
    table = pq.read_table("out/clusters.parquet")
    blocked = table.filter(np.array(table["kind"]) == "blocked")
    assert record["counts"]["removed_blocked"] == blocked.num_rows > 10
    assert record["stages"]["blocklist"]["entries"] == len(nk.Blocklist.open("list"))
    assert record["blocklist"]["path"] == "list"
    assert blocked["blocked_by"].null_count == 0
    kept = pq.read_table("out/kept/docs.parquet")["id"].to_pylist()
    assert not set(kept) & set(blocked["id"].to_pylist())
    assert "by the blocklist" in Path("out/report.html").read_text()
    assert app.run(["audit", "out"]) == 2


@pytest.mark.usefixtures("files")
def test_runs_without_a_blocklist_say_nothing_of_one() -> None:
    assert app.run(["dedup", *ARGUMENTS, "--out", "out"]) == 0
    record = json.loads(Path("out/run.json").read_text())
    names = [*record, *record["counts"], *record["stages"], *record["stages"]["cluster"]]
    assert not [name for name in names if "block" in name]
    assert pq.read_schema("out/clusters.parquet").names[-1] == "kind"


@pytest.mark.usefixtures("files")
def test_a_killed_run_is_resumed_with_the_same_list_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*ARGUMENTS, "--bands", "16", "--rows", "4", "--blocklist", "list"]
    assert app.run(["dedup", *options, "--out", "whole"]) == 0
    for stage in ("match_blocklist", "find_candidates"):
        with monkeypatch.context() as patch:

            def end(_run: Run) -> None:
                raise KeyboardInterrupt

            patch.setattr(Run, stage, end)
            assert app.run(["dedup", *options, "--out", stage]) != 0
        other = list_of(["another text altogether"])
        content = Path("list").read_bytes()
        other.save("list")
        assert app.run(["dedup", *options, "--out", stage, "--resume"]) == 2
        assert "begun with other --blocklist" in capsys.readouterr().err
        Path("list").write_bytes(content)
        assert app.run(["dedup", *options, "--out", stage, "--resume"]) == 0
        clusters = Path(stage, "clusters.parquet").read_bytes()
        assert clusters == Path("whole", "clusters.parquet").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--blocklist", "absent"], "no such blocklist"),
        (["--blocklist", "docs.parquet"], "not a blocklist"),
        (["--blocklist", "list", "--shingle", "words:5"], "whose n is 3"),
        (["--blocklist", "list", "--audit"], "--audit cannot be combined"),
        (["--blocklist", "list", "--document-weights", "sqrt"], "exclude each other"),
    ],
)
def test_requests_that_are_not_valid_write_nothing(
    options: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["dedup", *ARGUMENTS, *options, "--out", "out"]) == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in files.iterdir()) == ["docs.parquet", "list"]
