"""`nearkin demo`."""

import json
from pathlib import Path

import pytest

from nearkin.cli import app
from nearkin.quality.lab import demo_corpus

ROOT = Path(__file__).parents[2]


def test_demo_shows_three_clusters_in_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "demo"
    assert app.run(["demo", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert shown.out.count(" documents ─") == 3
    assert [line[:11] for line in shown.out.splitlines() if " documents ─" in line] == [
        "Cluster 1: ",
        "Cluster 2: ",
        "Cluster 3: ",
    ]
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 50, "three clusters fit on a screen or two"
    assert "report.html" in "".join(shown.err.split())
    assert len(shown.err[shown.err.index("131 of 237") :].splitlines()) <= 8
    command = shown.err.splitlines()[-1].removeprefix("Next: ").split()
    assert command[:2] == ["nearkin", "explain"]
    assert app.run(command[1:]) == 0
    assert "match" in capsys.readouterr().out


def test_demo_reads_source_code_if_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_all = demo_corpus.write_source_corpus
    monkeypatch.setattr(
        demo_corpus,
        "write_source_corpus",
        lambda path, least_lines: write_all(path, limit=3000, least_lines=least_lines),
    )
    assert app.run(["demo", "--source-code", "--out", str(tmp_path / "demo"), "--top", "2"]) == 0
    shown = capsys.readouterr()
    assert "removed" in shown.out
    # the source code was read from a temporary file
    assert "nearkin explain" not in shown.out + shown.err


def test_readme_command_keeps_as_many_releases_as_the_demo(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    (line,) = (line for line in readme.splitlines() if line.startswith("nearkin dedup nearkin/"))
    arguments = line.replace("nearkin/quality", str(ROOT / "nearkin" / "quality")).split()[1:-2]
    assert app.run([*arguments, "--out", str(tmp_path / "files")]) == 0
    assert app.run(["demo", "--out", str(tmp_path / "demo")]) == 0
    kept = {
        name: json.loads((tmp_path / name / "run.json").read_bytes())["counts"]["kept"]
        for name in ("files", "demo")
    }
    assert kept == {"files": 131, "demo": 131}
    assert "keeps 131 of them" in readme
