"""Tests of --quiet, with which a command prints its warnings and one line."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import run

LINES = [
    "dedup DOCS --id id --out OUT",
    "dedup DOCS --id id --out OUT.csv",
    "pairs DOCS --id id --out OUT.csv",
    "split DOCS --id id --groups 0.5,0.5 --out OUT",
    "check DOCS OTHER --id id --max 100",
    "passages DOCS --id id --min 20 --out OUT",
    "passages DOCS --id id --repeated-lines 2 --out OUT",
    "decontaminate DOCS --id id --against SUITE --out OUT",
    "lab sketch DOCS --id id --out OUT.arrow",
    "lab frequencies DOCS --out OUT.arrow",
    "lab synth --documents 20 --out OUT",
    "demo --out OUT",
]


@pytest.mark.parametrize("line", LINES)
def test_quiet_command_prints_its_warnings_and_one_line(
    line: str, documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(row) for row in documents.read_text().splitlines()[:4]]
    other, suite = tmp_path / "other.jsonl", tmp_path / "suite.jsonl"
    other.write_text("".join(json.dumps({**row, "id": f"o{row['id']}"}) + "\n" for row in rows))
    suite.write_text(json.dumps({"question": rows[0]["text"]}) + "\n")
    files = {"DOCS": documents, "OTHER": other, "SUITE": suite}
    words = [str(files.get(word, word)).replace("OUT", f"{tmp_path}/out") for word in line.split()]
    assert run(*words, "--quiet") == 0
    printed = capsys.readouterr()
    results = [
        text for text in printed.err.splitlines() if not text.startswith("nearkin: warning: ")
    ]
    assert len(results) == 1
    assert printed.out == ""
