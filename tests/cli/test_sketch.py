"""`nearkin lab sketch`, `nearkin lab merge` and `nearkin info` over signature files."""

import json
from pathlib import Path
from typing import Any

import pytest

from nearkin.stages.sketch.signature_file import read_signatures
from tests.cli.conftest import nearkin, run


def test_signature_files_are_written_merged_and_described(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = sorted((corpus / "documents").iterdir())
    files = {name: tmp_path / f"{name}.arrow" for name in ("a", "b", "both", "whole", "longer")}

    def describe(name: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run("info", files[name], "--json") == 0
        facts: dict[str, Any] = json.loads(capsys.readouterr().out)
        return facts

    for name, part in zip("ab", parts, strict=True):
        assert run("lab", "sketch", part, "--id", "id", "--k", 64, "--out", files[name]) == 0
    assert run("lab", "merge", files["a"], files["b"], "--out", files["both"]) == 0
    facts = describe("both")
    assert (facts["documents"], facts["spec"]["k"]) == (5999, 64)
    whole = (
        "lab",
        "sketch",
        corpus / "documents",
        "--id",
        "id",
        "--k",
        64,
        "--out",
        files["whole"],
    )
    assert run(*whole) == 0
    assert describe("whole") == facts
    assert run("lab", "sketch", parts[0], "--k", 128, "--out", files["longer"]) == 0
    capsys.readouterr()
    assert run("lab", "merge", files["a"], files["longer"], "--out", tmp_path / "e.arrow") == 2
    assert "was made with k=128, this with 64" in capsys.readouterr().err
    assert run("lab", "merge", files["a"], tmp_path, "--out", tmp_path / "e.arrow") == 2
    assert "is a folder, and other inputs are files; merge" in capsys.readouterr().err
    assert "fingerprint" in nearkin("info", files["a"]).stdout


def test_file_without_a_document_has_no_signatures(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "docs.signatures.arrow"
    (tmp_path / "bad.jsonl").write_text('{"text": 1\nno JSON\n')
    assert run("lab", "sketch", tmp_path / "bad.jsonl", "--out", out) == 3
    assert "nothing was written" in capfd.readouterr().err
    assert not out.exists()


def test_empty_file_has_an_empty_signature_file(tmp_path: Path) -> None:
    out = tmp_path / "docs.signatures.arrow"
    (tmp_path / "empty.jsonl").touch()
    assert run("lab", "sketch", tmp_path / "empty.jsonl", "--out", out) == 0
    assert not read_signatures(out).ids
