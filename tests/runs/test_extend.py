"""Tests of runs that extend a finished one: they equal a run over the final documents."""

import csv
import json
import os
import random
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run as command

BANDS = ["--bands", "20", "--rows", "2"]
BASE = ["--id", "id", "--threshold", "0.6", "--max-removed", "1"]
SAVED = ["--save-signatures", "--save-hashes"]
SETTINGS: list[list[str]] = [
    [*BANDS],
    [],
    [*BANDS, "--keep", "newest:date, length desc"],
    [*BANDS, "--cluster", "components"],
    [*BANDS, "--keep", "central"],
    [*BANDS, "--keep", "most-complete"],
    [*BANDS, "--same", "source"],
    [*BANDS, "--block-by", "source"],
    [*BANDS, "--across", "source"],
    [*BANDS, "--keep-up-to", "2"],
    [*BANDS, "--hot-bucket-size", "3"],
    [*BANDS, "--annotate"],
    [*BANDS, "--sizes", "--source", "source"],
    [*BANDS, "--verify", "estimate"],
    [*BANDS, "--scheme", "classic"],
    [*BANDS, "--empty", "drop"],
    [*BANDS, "--output", "ids"],
    [*BANDS, "--merge-fields", "date:max"],
    ["--shingle", "chars:5"],
]
Row = dict[str, Any]


def make_text(rng: random.Random, known: list[str]) -> str:
    """A text of its own, an edited one, a copy, or one without words."""
    kind = rng.random()
    if known and kind < 0.15:
        return rng.choice(known)
    if known and kind < 0.7:
        words = rng.choice(known).split()
        for _ in range(rng.randrange(1, 6)):
            if words:
                words[rng.randrange(len(words))] = f"edit{rng.randrange(50)}"
        return " ".join(words)
    if kind < 0.73:
        return ""
    return " ".join(f"w{rng.randrange(4000)}" for _ in range(rng.randrange(8, 40)))


def make_rows(rng: random.Random, ids: Iterable[str], texts: list[str]) -> list[Row]:
    rows = []
    for id in ids:
        texts.append(make_text(rng, texts))
        rows.append(
            {
                "id": id,
                "text": texts[-1],
                "source": f"s{rng.randrange(12)}",
                "date": f"2026-0{rng.randrange(1, 9)}-11",
            }
        )
    return rows


def write_rows(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    names = ("id", "text", "source", "date")
    if path.suffix == ".parquet":
        columns = {name: pa.array([row[name] for row in rows], pa.string()) for name in names}
        pq.write_table(pa.table(columns), path, row_group_size=7)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_clusters(out: Path) -> list[Row]:
    names = ["id", "cluster", "kept", "similarity", "kind"]
    rows = pq.read_table(out / "clusters.parquet", columns=names).to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


def read_pairs(out: Path) -> list[tuple[Any, ...]]:
    rows = pq.read_table(out / "pairs.parquet").to_pylist()
    pairs = [
        (*sorted((row["id_a"], row["id_b"])), row["similarity"], row["estimate"]) for row in rows
    ]
    return sorted(pairs)


def read_kept(out: Path) -> list[Row]:
    rows: list[Row] = []
    for path in sorted((out / "kept").rglob("*.*")):
        if path.suffix == ".parquet":
            rows += pq.read_table(path).to_pylist()
        elif path.suffix == ".csv":
            with path.open(newline="") as file:
                rows += csv.DictReader(file)
        else:
            rows += map(json.loads, path.read_text().splitlines())
    # numbers and nulls of added columns are texts in CSV
    texts = [{name: "" if v is None else str(v) for name, v in row.items()} for row in rows]
    return sorted(texts, key=lambda row: row["id"])


def require_equal(got: Path, want: Path) -> None:
    assert read_clusters(got) == read_clusters(want)
    assert read_pairs(got) == read_pairs(want)
    names = ("id", "text", "source", "date")
    kept, wanted = (
        [[row.get(name) for name in names] for row in read_kept(out)] for out in (got, want)
    )
    assert kept == wanted


def read_json(out: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((out / "run.json").read_text())
    return record


class History:
    """A collection that changes, and the runs over its states."""

    def __init__(self, folder: Path, seed: int, settings: list[str]) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.settings = settings
        self.texts: list[str] = []
        self.rows: dict[str, Row] = {}
        self.steps = 0
        self.workers = ["--workers", str(self.rng.choice([1, 2, 3]))]

    def new_rows(self, count: int) -> list[Row]:
        fresh = [f"d{len(self.texts) + number}" for number in range(count)]
        again = self.rng.sample(sorted(self.rows), min(len(self.rows) // 8, count // 3))
        return make_rows(self.rng, [*fresh, *again], self.texts)

    def write(self, count: int) -> Path:
        """Writes new and changed rows into one to three files of some format."""
        folder = self.folder / f"day{self.steps}"
        rows = self.new_rows(count)
        self.rng.shuffle(rows)
        suffix = self.rng.choice([".jsonl", ".parquet", ".csv"])
        if "--merge-fields" in self.settings:
            # values of several types are not merged
            suffix = ".parquet"
        parts = self.rng.randrange(1, 4)
        for part in range(parts):
            write_rows(folder / f"part{part}{suffix}", rows[part::parts])
        self.rows.update({row["id"]: row for row in rows})
        return folder

    def begin(self) -> Path:
        docs = self.write(self.rng.randrange(20, 60))
        out = self.folder / "run0"
        line = ["dedup", docs, *BASE, *self.settings, *SAVED, *self.workers, "--out", out, "-qq"]
        assert command(list(map(str, line))) == 0
        return out

    def extend(self, before: Path, *options: str) -> Path:
        """Extends a run by a step of the history."""
        self.steps += 1
        withdrawn = self.rng.sample(sorted(self.rows), self.rng.randrange(0, len(self.rows) // 5))
        removed = self.folder / f"removed{self.steps}.csv"
        rows = [{"id": id} for id in [*withdrawn, "unknown"]]
        with removed.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["id"])
            writer.writeheader()
            writer.writerows(rows)
        for id in withdrawn:
            del self.rows[id]
        docs = self.write(self.rng.randrange(1, 20))
        out = self.folder / f"run{self.steps}"
        line = ["dedup", docs, "--extend", before, "--removed", removed, *options, *self.workers]
        assert command([*map(str, line), "--out", str(out), "-qq"]) == 0
        return out

    def run_over_all(self, *options: str, rows: list[Row] | None = None) -> Path:
        """Runs over the final state."""
        path = self.folder / "final" / "docs.parquet"
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        pq.write_table(pa.Table.from_pylist(rows or list(self.rows.values())), path)
        out = self.folder / "want"
        line = ["dedup", path, *BASE, *self.settings, *options, *SAVED, "--out", out, "-qq"]
        assert command([*map(str, line), "--overwrite"]) == 0
        return out


@pytest.mark.parametrize("part", range(4))
def test_random_histories_equal_runs_over_the_final_state(
    part: int, tmp_path: Path, *, full: bool
) -> None:
    histories = 75 if full else 5
    reused = 0
    for seed in range(part, 4 * histories, 4):
        folder = tmp_path / str(seed)
        history = History(folder, seed, SETTINGS[seed % len(SETTINGS)])
        out = history.begin()
        for _ in range(history.rng.randrange(1, 4)):
            out = history.extend(out)
            reused += read_json(out)["stages"].get("candidates", {}).get("known", 0)
        require_equal(out, history.run_over_all())
        shutil.rmtree(folder)
    assert reused


@pytest.mark.parametrize("seed", range(6))
def test_a_stable_extension_keeps_what_was_kept(seed: int, tmp_path: Path, *, full: bool) -> None:
    policy = ["length desc", "newest:date, length desc"][seed % 2]
    history = History(tmp_path, seed, [*BANDS, "--keep", policy])
    out = history.begin()
    history.settings = BANDS
    for _ in range(6 if full else 2):
        kept = {row["id"] for row in read_clusters(out) if row["kept"]}
        before = dict(history.rows)
        out = history.extend(out, "--stable")
        # a document stays the same if its row does
        kept = {id for id in kept if history.rows.get(id) is before[id]}
        after = {row["id"] for row in read_clusters(out) if row["kept"]}
        assert kept <= after
        rows = [{**row, "old": str(int(row["id"] in kept))} for row in history.rows.values()]
        require_equal(out, history.run_over_all("--keep", f"old:1>0, {policy}", rows=rows))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file old.jsonl, and the runs `run`, `unsaved` and `without-ids` over it."""
    folder = tmp_path_factory.mktemp("finished")
    write_rows(folder / "old.jsonl", make_rows(random.Random(1), [f"d{i}" for i in range(60)], []))
    line = ["dedup", str(folder / "old.jsonl"), "--threshold", "0.6", "--max-removed", "1", "-qq"]
    ids = ["--id", "id"]
    assert command([*line, *ids, *BANDS, *SAVED, "--out", str(folder / "run")]) == 0
    assert command([*line, *ids, "--save-signatures", "--out", str(folder / "unsaved")]) == 0
    assert command([*line, *SAVED, "--out", str(folder / "without-ids")]) == 0
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the finished runs beside new files, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    # the runs name their inputs by absolute paths
    for record in tmp_path.glob("*/run.json"):
        record.write_text(record.read_text().replace(str(finished), str(tmp_path)))
    shutil.copystat(finished / "old.jsonl", "old.jsonl")
    rows = make_rows(random.Random(2), ["n0", "n1", "d3"], [])
    write_rows(tmp_path / "new.jsonl", rows)
    write_rows(tmp_path / "twice.jsonl", [*rows, rows[0]])
    (tmp_path / "removed.csv").write_text("name\nd1\n")
    return tmp_path


def edit_record(name: str, value: object) -> None:
    record = json.loads(Path("run/run.json").read_text())
    Path("run/run.json").write_text(json.dumps({**record, name: value}))


EXTEND = ["dedup", "new.jsonl", "--extend", "run", "--out", "out", "-qq"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (["--threshold", "0.7"], "--threshold cannot be given beside --extend run"),
        (["--executor", "processes"], "--executor cannot be given beside --extend run"),
        (["--extend", "unsaved"], "with --save-signatures --save-hashes, whose output can be"),
        (["--extend", "without-ids"], "its documents have no column of ids"),
        (["--extend", "missing"], "no such folder: missing"),
        (["--removed", "removed.csv"], "removed.csv has no column 'id', the column of ids"),
        (["--removed", "gone.csv"], "cannot read the ids in gone.csv"),
        (["--out", "kept.jsonl"], "kept.jsonl is a file, and the result of a run that extends"),
        (["old.jsonl"], "old.jsonl is an input of run already"),
        (["twice.jsonl"], "the new documents have the id 'n0' more than once"),
    ],
)
def test_what_cannot_extend_a_run_is_refused(
    other: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = EXTEND
    if other[0].endswith(".jsonl"):
        line = ["dedup", *other, *EXTEND[2:]]
        other = []
    assert command([*line, *other]) == 2
    assert message in capsys.readouterr().err
    assert not Path("out").exists()
    assert not Path("kept.jsonl").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda: Path("run/.nearkin-output.json").unlink(), "the list of its files is lost"),
        (lambda: Path("run/run.json").write_text('{"nearkin"'), "run is not the output of a run"),
        (lambda: edit_record("nearkin", "0.0.1"), "it was made by nearkin 0.0.1, and this is"),
        (lambda: Path("run/comparison/pairs").write_bytes(b"x" * 8), "or they are damaged"),
        (lambda: Path("run/comparison/compared").unlink(), "or they are damaged"),
        (lambda: Path("run/signatures/set-upper").write_bytes(b"x"), "or they are damaged"),
        (lambda: Path("run/signatures/signatures").write_bytes(b"x"), "bytes instead of"),
        (lambda: Path("old.jsonl").write_text("{}\n"), "old.jsonl has changed: size was"),
        (lambda: Path("old.jsonl").unlink(), "no such file or folder"),
    ],
)
def test_a_damaged_run_is_not_extended(
    damage: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage()
    assert command(EXTEND) == 2
    assert message in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.usefixtures("folder")
def test_a_stable_extension_needs_one_kept_document(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["dedup", "old.jsonl", "--id", "id", *SAVED, "--keep-up-to", "2", "--out", "two", "-qq"]
    assert command([*line, "--max-removed", "1"]) == 0
    assert command([*EXTEND, "--extend", "two", "--stable"]) == 2
    assert "--stable needs clusters around one kept document" in capsys.readouterr().err
    assert command([*EXTEND[:2], "--stable", "--out", "out"]) == 2
    assert "--stable has no effect without --extend" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_the_library_extends_a_run_and_says_what_changed() -> None:
    changes = nk.extend("run", "new.jsonl", out="out", removed=["d1", "d2", "unknown"])
    assert changes.counts["new"] == 2
    assert changes.counts["withdrawn"] == 2
    extension = read_json(Path("out"))["extension"]
    numbers = {"new": 3, "replaced": 1, "withdrawn": 2, "unknown": 1, "stable": False}
    assert extension == {"run": "run", **numbers}
    Path("ids.txt").write_text("d1\nd2\n\n")
    pq.write_table(pa.table({"id": ["d1", "d2"]}), "ids.parquet")
    for number, ids in enumerate(("ids.txt", "ids.parquet")):
        nk.extend("run", removed=ids, out=f"withdrawn{number}")
    assert read_clusters(Path("withdrawn0")) == read_clusters(Path("withdrawn1"))
    assert {row["id"] for row in read_clusters(Path("withdrawn0"))} == {
        f"d{number}" for number in range(60) if number not in (1, 2)
    }
    with pytest.raises(nk.UsageError, match="nothing changes run: give new files"):
        nk.extend("run", out="other")
    with pytest.raises(nk.UsageError, match="is the run itself"):
        nk.extend("run", "new.jsonl", out="run/", overwrite=True)


@pytest.mark.usefixtures("folder")
def test_documents_are_withdrawn_without_new_ones(capsys: pytest.CaptureFixture[str]) -> None:
    Path("all.txt").write_text("".join(f"d{number}\n" for number in range(60)))
    line = ["dedup", *EXTEND[2:4], "--removed", "all.txt", "-qq", "--out"]
    assert command([*line, "none"]) == 0
    assert read_clusters(Path("none")) == []
    assert read_kept(Path("none")) == []
    # rejected rows replace nothing
    Path("null.jsonl").write_text('{"id": "d7", "text": null}\n')
    assert command([line[0], "null.jsonl", *line[1:3], "-qq", "--out", "same"]) == 0
    require_equal(Path("same"), Path("run"))
    assert command(["dedup", "new.jsonl", "--extend", "none", "-qq", "--out", "some"]) == 0
    assert {row["id"] for row in read_clusters(Path("some"))} == {"n0", "n1", "d3"}
    capsys.readouterr()
    assert command(["dedup", "--out", "other"]) == 2
    assert "missing argument INPUTS" in capsys.readouterr().err
    assert command([*EXTEND[:1], *EXTEND[2:]]) == 2
    assert "nothing changes run: give new files" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_run_is_extended_in_place() -> None:
    assert command(EXTEND) == 0
    assert command([*EXTEND, "--out", "run", "--overwrite"]) == 0
    require_equal(Path("run"), Path("out"))
    Path("more.jsonl").write_text('{"id": "m", "text": "one two three four five"}\n')
    assert command(["dedup", "more.jsonl", *EXTEND[2:4], "--out", "run", "--overwrite", "-qq"]) == 0
    assert len(read_clusters(Path("run"))) == len(read_clusters(Path("out"))) + 1


def read_ids(out: Path) -> dict[str, str]:
    table = pq.read_table(out / "clusters.parquet")
    name = "persistent_cluster" if "persistent_cluster" in table.column_names else "cluster"
    return dict(zip(table["id"].to_pylist(), table[name].to_pylist(), strict=True))


def read_history(out: Path) -> list[tuple[Any, ...]]:
    return [
        tuple(row.values()) for row in pq.read_table(out / "cluster_history.parquet").to_pylist()
    ]


def test_clusters_keep_their_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    river = "the river rose two metres overnight and flooded the old mill near the bridge"
    tram = "a new tram line from the station to the harbour will open in the spring of next year"
    texts = {"r1": river, "r2": f"{river} again", "t1": tram, "t2": f"{tram} perhaps", "x": "x y z"}
    lines = [json.dumps({"id": id, "text": text}) for id, text in texts.items()]
    Path("old.jsonl").write_text("\n".join(lines))
    line = ["dedup", "old.jsonl", "--id", "id", "--threshold", "0.5", *SAVED, "--out", "run"]
    assert command([*line, "--max-removed", "1", "-qq"]) == 0
    assert read_ids(Path("run")) == {"r1": "r2", "r2": "r2", "t1": "t2", "t2": "t2", "x": "x"}
    # a longer version is kept, and the cluster stays the same one
    Path("new.jsonl").write_text(json.dumps({"id": "r3", "text": f"{river} again and again"}))
    grown = nk.extend("run", "new.jsonl", out="one", removed=["t1"])
    assert grown.clusters.arrow.to_pylist() == [
        {
            "change": "grew",
            "cluster_before": "r2",
            "cluster_after": "r2",
            "documents_before": 2,
            "documents_after": 3,
            "documents_shared": 2,
        },
        {
            "change": "dissolved",
            "cluster_before": "t2",
            "cluster_after": None,
            "documents_before": 2,
            "documents_after": 0,
            "documents_shared": 0,
        },
    ]
    reasons = {row["id"]: row["reason"] for row in grown.documents.arrow.to_pylist()}
    assert reasons == {"r2": "new document", "r3": None, "t1": None}
    ids = {"r1": "r2", "r2": "r2", "r3": "r2", "t2": "t2", "x": "x"}
    assert read_ids(Path("one")) == ids
    assert {row["cluster"] for row in read_clusters(Path("one"))} == {"r3", "t2", "x"}
    assert read_history(Path("one")) == []
    # the cluster of the tram has ended, and its id is not given again
    Path("changed.jsonl").write_text(json.dumps({"id": "r1", "text": "something else altogether"}))
    nk.extend("one", "changed.jsonl", out="two", removed=["r2", "r3"])
    assert read_ids(Path("two")) == {"r1": "r1", "t2": "t2", "x": "x"}
    assert read_history(Path("two")) == [(1, "dissolved", "r2", None)]
    Path("later.jsonl").write_text(json.dumps({"id": "r2", "text": "another r two"}))
    nk.extend("two", "later.jsonl", out="three")
    assert read_ids(Path("three"))["r2"] == "r2#2"
    assert read_history(Path("three")) == [(1, "dissolved", "r2", None)]


@pytest.mark.usefixtures("folder")
def test_unchanged_copies_are_copied_and_others_are_made_again() -> None:
    copy = Path("run/kept/old.jsonl")
    before = copy.read_bytes()
    Path("far.jsonl").write_text('{"id": "far", "text": "nothing else has these few words"}\n')
    line = ["dedup", "far.jsonl", *EXTEND[2:4], "-qq", "--out"]
    # its content is changed in a way that nobody sees
    edited = before.replace(b'"d0"', b'"D0"')
    times = (copy.stat().st_atime_ns, copy.stat().st_mtime_ns)
    copy.write_bytes(edited)
    os.utime(copy, ns=times)
    assert command([*line, "copied"]) == 0
    assert Path("copied/kept/old.jsonl").read_bytes() == edited
    os.utime(copy)
    assert command([*line, "made"]) == 0
    assert Path("made/kept/old.jsonl").read_bytes() == before
    assert read_report(Path("made")) == read_report(Path("copied"))


@pytest.mark.usefixtures("folder")
def test_sets_are_linked_until_a_document_of_theirs_is_withdrawn() -> None:
    """A finished run stays as it was, also if an extension of it is interrupted and repeated."""
    sets = Path("run/signatures/set-upper")
    before = sets.read_bytes()
    Path("far.jsonl").write_text('{"id": "far", "text": "nothing else has these few words"}\n')
    assert command(["dedup", "far.jsonl", "--extend", "run", "-qq", "--out", "linked"]) == 0
    assert Path("linked/signatures/set-upper").samefile(sets)
    assert Path("linked/signatures/set-upper.1").stat().st_size == 4 * 4
    line = ["dedup", "--extend", "linked", "--removed", "gone.txt", "-qq", "--out", "without"]
    Path("gone.txt").write_text("d1\n")
    assert command(line) == 0
    ends = np.fromfile("run/signatures/set-ends", np.int64)
    withdrawn = slice(4 * int(ends[0]), 4 * int(ends[1]))
    left = before[: withdrawn.start] + before[withdrawn.stop :]
    assert Path("without/signatures/set-upper").read_bytes() == left
    further = Path("without/signatures/set-upper.1")
    assert further.samefile("linked/signatures/set-upper.1")
    line = ["dedup", "far.jsonl", "--extend", "run", "-qq", "--out", "linked", "--overwrite"]
    assert command([*line, "--readable-by", "everyone"]) == 0
    assert not Path("linked/signatures/set-upper").samefile(sets)
    assert sets.read_bytes() == before
    assert stat.S_IMODE(sets.stat().st_mode) == 0o600


def read_report(out: Path) -> dict[str, Any]:
    """The part of a report that does not depend on times and versions of copies."""
    report = json.loads((out / "report.json").read_text())
    return {name: report.get(name) for name in ("clusters", "borderline", "template_families")}


@pytest.mark.usefixtures("folder")
def test_other_commands_read_an_extended_run(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ids.txt").write_text("d1\nd2\n")
    assert command([*EXTEND, "--removed", "ids.txt"]) == 0
    assert command(["dedup", "out", "--threshold", "0.9", "--out", "stricter", "-qq"]) == 0
    rows = [json.loads(line) for line in Path("old.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["id"] not in ("d1", "d2", "d3")]
    rows += [json.loads(line) for line in Path("new.jsonl").read_text().splitlines()]
    write_rows(Path("all.jsonl"), rows)
    line = ["dedup", "all.jsonl", "--id", "id", "--threshold", "0.9", *BANDS, "--out", "want"]
    assert command([*line, "-qq"]) == 0
    require_equal(Path("stricter"), Path("want"))
    assert command(["audit", "out", "--quiet"]) == 0
    capsys.readouterr()
    assert command(["explain", "d1", "d4", "--run", "out"]) == 2
    assert "d1" in capsys.readouterr().err
    assert command(["explain", "d3", "d4", "--run", "out"]) == 0
