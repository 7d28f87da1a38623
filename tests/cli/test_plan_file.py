"""Plans that `nearkin dedup --plan` reads."""

from pathlib import Path

import pytest

from nearkin.cli.app import run
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.options import MatchOptions
from nearkin.cli.plan_file import apply_plan, is_plan
from nearkin.errors import UsageError
from nearkin.settings.table import SignatureSettings

NOTHING_GIVEN = GivenOptions(frozenset())


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"settings": []}', '{"settings": "threshold=0.7"}', "\x00"]
)
def test_file_that_is_not_a_plan_is_reported_with_the_way_to_write_one(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"plan\.json is not a plan; write one with nearkin plan"):
        apply_plan(path, NOTHING_GIVEN, SignatureSettings(), MatchOptions())


def test_values_of_the_plan_replace_defaults(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"settings": {"threshold": 0.7, "k": 64, "bands": null}}')
    spec, match = apply_plan(path, NOTHING_GIVEN, SignatureSettings(), MatchOptions(bands=4))
    assert (spec.k, match.threshold, match.bands) == (64, 0.7, 4)


def test_given_option_that_contradicts_the_plan_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"settings": {"threshold": 0.7, "memory": "4GB"}}')
    given = GivenOptions(frozenset({"threshold", "memory"}))
    with pytest.raises(UsageError, match=r"--threshold 0\.9 contradicts 0\.7"):
        apply_plan(path, given, SignatureSettings(), MatchOptions(threshold=0.9))
    same_size = MatchOptions(threshold=0.7, memory="4000MB")
    assert apply_plan(path, given, SignatureSettings(), same_size)[1].threshold == 0.7


def test_plan_is_written_into_a_json_file_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--docs", "1k", "--out", str(tmp_path / "plan.csv")]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "plan.csv does not end in .json, and a plan is a JSON file; name it plan.json" in printed
    assert list(tmp_path.iterdir()) == []
    assert run(["plan", "--docs", "1k", "--out", str(tmp_path / "plan.json")]) == 0


def test_settings_of_another_program_are_not_replaced_by_a_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"settings": {"import/resolver": "node"}}')
    assert not is_plan(path)
    assert run(["plan", "--docs", "1M", "--out", str(path)]) == 2
    assert "is not a plan that nearkin wrote" in capsys.readouterr().err
    plan = tmp_path / "plan.json"
    assert run(["plan", "--docs", "1M", "--out", str(plan)]) == 0
    assert is_plan(plan)
    assert run(["plan", "--docs", "2M", "--out", str(plan)]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--docs", "many"], "--docs 'many' is not a count"),
        (["--docs", "1M", "--out", "missing/plan.json"], "no such folder: missing"),
    ],
)
def test_machine_is_not_measured_for_a_plan_that_is_refused(
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "nearkin.quality.lab.calibration.calibrate", lambda show: pytest.fail("measured")
    )
    assert run(["plan", "--calibrate", *options]) == 2
    assert message in capsys.readouterr().err


def test_plan_without_an_end_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    command = [
        "dedup",
        str(tmp_path / "a.jsonl"),
        "--plan",
        "/dev/zero",
        "--out",
        str(tmp_path / "o"),
    ]
    assert run(command) == 2
    assert "/dev/zero is not a plan" in capsys.readouterr().err
