"""`nearkin decontaminate`: its output, its summary, its exit codes and its errors."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nearkin.errors import RunError
from nearkin.runs import decontamination
from nearkin.runtime.outputs import MANIFEST
from nearkin.settings.keys import HashKey
from tests.cli.conftest import run

QUESTION = "How many boats crossed the frozen bay on the second day of the long spring festival?"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    docs, suite = tmp_path / "docs.jsonl", tmp_path / "boats.jsonl"
    rows = [
        {"id": "a", "text": f"Quiz \x1b[31m {QUESTION.upper()} </script>"},
        {"id": "b", "text": "Boats crossed the bay."},
        {"id": "c", "text": None},
    ]
    docs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    items = [
        {"name": "i1", "question": QUESTION},
        {"name": "i2", "question": QUESTION.replace("boats", "large ships of the navy").upper()},
        {"name": "i3", "question": "Who?"},
    ]
    suite.write_text("".join(json.dumps(item) + "\n" for item in items))
    return docs, suite


def options_of(files: tuple[Path, Path], out: Path) -> tuple[object, ...]:
    return (files[0], "--against", files[1], "--suite-id", "name", "--id", "id", "--out", out)


def test_output_lists_items_documents_and_suites(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run("decontaminate", *options_of(files, out)) == 0
    assert {path.name for path in out.iterdir()} == {
        ".nearkin-output.json",
        "documents.parquet",
        "hits.parquet",
        "items.parquet",
        "rejected.jsonl",
        "report.html",
        "run.json",
        "suites.parquet",
    }
    hits = pq.read_table(out / "hits.parquet").to_pylist()
    assert {(hit["suite"], hit["id"], hit["field"]) for hit in hits} == {("boats", "a", "question")}
    assert hits[0]["item"] == "i1"
    assert hits[0]["score"] == 1.0
    (suite,) = pq.read_table(out / "suites.parquet").to_pylist()
    assert suite["items"] == 3
    assert suite["not_searched"] == 1
    (document,) = pq.read_table(out / "documents.parquet").to_pylist()
    assert (document["id"], document["suites"]) == ("a", ["boats"])
    printed = capsys.readouterr().err
    assert "1 row was rejected" in printed
    assert "\x1b" not in printed
    page = (out / "report.html").read_text()
    assert "<mark>" in page
    assert "</script>" not in page
    facts = json.loads((out / "run.json").read_text())
    assert facts["suite_counts"][0]["suite"] == "boats"
    assert QUESTION not in (out / "run.json").read_text()


@pytest.mark.parametrize(("share", "code"), [(0.0, 3), (0.3, 3), (0.4, 0)])
def test_contamination_above_the_allowed_share_ends_with_exit_code_3(
    share: float, code: int, files: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    options = ("--fail-above", str(share), "--quiet", "--json")
    assert run("decontaminate", *options_of(files, out), *options) == code
    assert (out / "hits.parquet").exists()
    # A finished output gives the same answer.
    assert run("decontaminate", *options_of(files, out), *options, "--resume") == code


def test_suite_without_items_is_named_in_a_warning(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("name,question\n")
    options = (*options_of(files, tmp_path / "out"), "--against", empty, "--fail-above", 1)
    assert run("decontaminate", *options) == 0
    assert "the suite empty has no items" in " ".join(capsys.readouterr().err.split())


def test_actions_write_the_documents(files: tuple[Path, Path], tmp_path: Path) -> None:
    expected = {
        "drop": ["b"],
        "cut": ["a", "b"],
        "annotate": ["a", "b"],
    }
    shown = {
        "drop": "<p>1 document was removed.</p>",
        "cut": "<p>1 part was cut from 1 document. The table cuts.parquet lists them.</p>",
        "annotate": "1 of 3 items is in 1 of 2 documents",
    }
    for action, ids in expected.items():
        out = tmp_path / action
        assert run("decontaminate", *options_of(files, out), "--action", action, "-q") == 0
        rows = [json.loads(line) for line in (out / "kept" / "docs.jsonl").open()]
        assert [row["id"] for row in rows] == ids
        assert shown[action] in (out / "report.html").read_text()
        if action == "cut":
            assert rows[0]["text"] == "Quiz \x1b[31m ? </script>"
            assert rows[0]["cut_spans"] == [{"start": 11, "end": 11 + len(QUESTION) - 1}]
        if action == "annotate":
            assert rows[0]["contamination"][0]["item"] == "i1"
            assert rows[1]["contamination"] == []


def test_suites_are_saved_and_used_again(files: tuple[Path, Path], tmp_path: Path) -> None:
    saved, keyed = tmp_path / "s.arrow", tmp_path / "k.arrow"
    key = tmp_path / "key"
    key.write_text(HashKey.generate()[1])
    assert run("decontaminate", files[1], "--suite-id", "name", "--build", saved) == 0
    assert run("decontaminate", files[1], "--build", saved) == 2
    assert run("decontaminate", files[1], "--build", saved, "--overwrite", "--json") == 0
    assert run("decontaminate", files[1], "--build", keyed, "--keyed") == 2
    assert run("decontaminate", files[1], "--build", keyed, "--keyed", "--key-file", key) == 0
    for path, options in ((saved, ()), (keyed, ("--key-file", key))):
        out = tmp_path / f"out-{path.stem}"
        assert run("decontaminate", files[0], "--against", path, "--out", out, *options, "-q") == 0
        (suite,) = pq.read_table(out / "suites.parquet").to_pylist()
        assert suite["documents"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "OUT"), "--against SUITE is missing"),
        (("--against", "SUITE"), "--out DIR is missing"),
        (("--against", "SUITE", "--out", "OUT", "--keyed"), "--keyed has no effect"),
        (("--build", "B.arrow", "--out", "OUT"), "--out has no effect with --build"),
        (("--build", "B.arrow", "--exclude", "*.bak"), "--exclude has no effect with --build"),
        (("--build", "B.csv"), "such files is .arrow; choose, for example, --build B.arrow"),
        (("--build", "B.arrow", "--operating-point", "exact"), "without --keyed"),
        (("--against", "SUITE", "--out", "OUT", "--field-threshold", "a"), "context=0.9"),
        (("--against", "SUITE", "--out", "OUT", "--fail-above", "2"), "from 0 to 1"),
        (("--against", "SUITE", "--out", "SUITE"), "boats.jsonl"),
        (("--against", "SUITE", "--out", "OUT", "--cut", "line"), "--action cut"),
        (("--against", "NONE", "--out", "OUT"), "no such file"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(
    options: tuple[str, ...],
    message: str,
    files: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    names = {"SUITE": str(files[1]), "OUT": str(tmp_path / "out"), "NONE": "none.jsonl"}
    line = [names.get(option, option) for option in options]
    assert run("decontaminate", files[0], *line) == 2
    assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_interrupted_run_is_resumed(
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    original = decontamination.DecontaminationRun._match

    def fail(run: decontamination.DecontaminationRun) -> dict[str, object]:
        raise RunError("the disk is full")

    monkeypatch.setattr(decontamination.DecontaminationRun, "_match", fail)
    assert run("decontaminate", *options_of(files, out), "-q") == 1
    assert not out.exists()
    monkeypatch.setattr(decontamination.DecontaminationRun, "_match", original)
    other = ("--operating-point", "exact", "--resume", "-q")
    assert run("decontaminate", *options_of(files, out), *other) == 2
    files[1].write_text(files[1].read_text().replace("boats", "ships"))
    assert run("decontaminate", *options_of(files, out), "--resume", "-q") == 2
    files[1].write_text(files[1].read_text().replace("ships", "boats"))
    monkeypatch.setattr(decontamination.DecontaminationRun, "_scan", fail)
    (manifest,) = tmp_path.glob(f"*/{MANIFEST}")
    written = manifest.read_text()
    # Versions before this record wrote no texts of candidates.
    manifest.write_text(written.replace('"format"', '"form"'))
    assert run("decontaminate", *options_of(files, out), "--resume", "-q") == 2
    assert "in another format; run with --overwrite" in capsys.readouterr().err
    manifest.write_text(written)
    assert run("decontaminate", *options_of(files, out), "--resume", "-q") == 0
    assert pq.read_table(out / "documents.parquet").num_rows == 1
