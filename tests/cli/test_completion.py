"""Completion of commands, options and values in a shell."""

import pytest

from nearkin.cli import app

WORDS = [
    ("nearkin ded", "dedup"),
    ("nearkin index che", "check"),
    ("nearkin dedup --thres", "--threshold"),
    ("nearkin dedup x --measure sim", "simhash"),
    ("nearkin dedup x --normalise mar", "markup"),
    ("nearkin dedup x --base-hash fn", "fnv1a"),
    ("nearkin dedup x --scheme cl", "classic"),
    ("nearkin dedup x --weights tfi", "tfidf"),
    ("nearkin dedup x --shingle chars:5", "chars:5"),
    ("nearkin dedup x --on-error qua", "quarantine"),
    ("nearkin dedup x --verify est", "estimate"),
    ("nearkin dedup x --cluster com", "components"),
    ("nearkin dedup x --empty dr", "drop"),
    ("nearkin dedup x --readable-by gr", "group"),
    ("nearkin pairs x --relation con", "containment"),
    ("nearkin index build x --postings le", "leaders"),
]


@pytest.mark.parametrize(("line", "completed"), WORDS)
def test_shell_completes_commands_options_and_values(
    line: str,
    completed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_NEARKIN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    assert app.run([]) == 0
    assert completed in capsys.readouterr().out.split()


def test_installed_completion_is_a_script_for_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    assert app.run(["--show-completion"]) == 0
    assert "_NEARKIN_COMPLETE=complete_bash" in capsys.readouterr().out
