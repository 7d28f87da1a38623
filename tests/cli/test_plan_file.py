"""Plans that `nearkin dedup --plan` reads."""

from pathlib import Path

import pytest

from nearkin.cli.app import run
from nearkin.cli.option_groups import GivenOptions
from nearkin.cli.options import MatchOptions, SpecOptions
from nearkin.cli.plan_file import apply_plan
from nearkin.errors import UsageError

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
        apply_plan(path, NOTHING_GIVEN, SpecOptions(), MatchOptions())


def test_values_of_the_plan_replace_defaults(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"settings": {"threshold": 0.7, "k": 64, "bands": null}}')
    spec, match = apply_plan(path, NOTHING_GIVEN, SpecOptions(), MatchOptions(bands=4))
    assert (spec.k, match.threshold, match.bands) == (64, 0.7, 4)


def test_given_option_that_contradicts_the_plan_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"settings": {"threshold": 0.7, "memory": "4GB"}}')
    given = GivenOptions(frozenset({"threshold", "memory"}))
    with pytest.raises(UsageError, match=r"--threshold 0\.9 contradicts 0\.7"):
        apply_plan(path, given, SpecOptions(), MatchOptions(threshold=0.9))
    same_size = MatchOptions(threshold=0.7, memory="4000MB")
    assert apply_plan(path, given, SpecOptions(), same_size)[1].threshold == 0.7


def test_plan_is_written_into_a_json_file_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--docs", "1k", "--out", str(tmp_path / "plan.csv")]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "plan.csv does not end in .json, and a plan is a JSON file; name it plan.json" in printed
    assert list(tmp_path.iterdir()) == []
    assert run(["plan", "--docs", "1k", "--out", str(tmp_path / "plan.json")]) == 0
