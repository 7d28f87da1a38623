"""Tests of the sentence about the settings in which two runs differ."""

from typing import Any

import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.engine.changed_settings import describe_change, list_changes
from nearkin.engine.options import RunOptions
from nearkin.runtime.setting_names import SettingForm, settings_named_as


def identity(
    columns: Columns | None = None, options: RunOptions | None = None, **other: Any
) -> dict[str, Any]:
    import json

    options = options or RunOptions()
    record = {
        **other,
        "command": "dedup",
        "spec": json.loads(options.spec.to_json()),
        "parameters": options.parameters(),
        "columns": (columns or Columns()).to_record(),
    }
    return dict(json.loads(json.dumps(record)))


def chars(**spec: Any) -> RunOptions:
    return RunOptions(spec=nk.Spec(unit="chars", n=5, **spec))


CHANGES = [
    (
        identity(Columns(text="title", joined=("body",))),
        "--text text, and this run has --text title,body",
    ),
    (identity(Columns(id="key")), "no --id, and this run has --id key"),
    (
        identity(Columns(text=None, vector="e", dimensions=3), chars()),
        "no --vector, and this run has --vector e",
    ),
    (identity(options=chars()), "--shingle words:3, and this run has --shingle chars:5"),
    (
        identity(
            options=RunOptions(keep="score desc"), columns=Columns(carried_columns=("score",))
        ),
        "--keep 'length desc', and this run has --keep 'score desc'",
    ),
    (
        identity(options=RunOptions(hot_bucket_size=7)),
        "--hot-bucket-size 100, and this run has --hot-bucket-size 7",
    ),
    (
        identity(options=RunOptions(spec=nk.Spec(normalise=()))),
        "--normalise nfkc,lower, and this run has no --normalise",
    ),
    (identity(annotate=True), "no --annotate, and this run has --annotate"),
    (identity(output="ids"), "no --output, and this run has --output ids"),
    (identity(decisions="ab12"), "no --decisions, and this run has --decisions"),
    (identity(groups=[0.8, 0.2]), "no --groups, and this run has --groups 0.8,0.2"),
    (
        identity(passages={"min_tokens": 50, "cut": "line", "min_left": 0}),
        "no --passages, and this run has --passages",
    ),
    (identity(only_against=False), "no --against, and this run has --against"),
    ({**identity(), "command": "split"}, "command dedup, and this run has command split"),
]


@pytest.mark.parametrize(("changed", "sentence"), CHANGES, ids=[text for _, text in CHANGES])
def test_a_difference_names_the_option_as_it_is_given(changed: Any, sentence: str) -> None:
    with settings_named_as(SettingForm.OPTION):
        assert describe_change(identity(), changed) == sentence


@pytest.mark.parametrize(
    ("before", "now", "sentence"),
    [
        ({"decisions": "ab"}, {"decisions": "cd"}, "other --decisions"),
        (
            {"passages": {"min_tokens": 50, "cut": "line"}},
            {"passages": {"min_tokens": 60, "cut": "line"}},
            "other --passages",
        ),
        (
            {"passages": {"min_tokens": 50, "cut": "line"}},
            {"passages": {"min_tokens": 60, "cut": "passage"}},
            "other --passages",
        ),
        (
            {"cut": {"cut": "line", "min_left": 0, "keep": "id"}},
            {"cut": {"cut": "line", "min_left": 9, "keep": "id"}},
            "--min-left 0, and this run has --min-left 9",
        ),
        ({"suites": {"fingerprint": "a"}}, {"suites": {"fingerprint": "b"}}, "other --against"),
        (
            {"lines": {"unit": "line", "keep": "id"}},
            {"lines": {"unit": "paragraph", "keep": "id"}},
            "other --repeated-lines",
        ),
    ],
)
def test_values_that_nobody_typed_are_not_shown(before: Any, now: Any, sentence: str) -> None:
    with settings_named_as(SettingForm.OPTION):
        assert describe_change(identity(**before), identity(**now)) == sentence


def test_equal_settings_have_no_difference() -> None:
    assert describe_change(identity(annotate=None), identity()) is None


def test_a_difference_without_a_name_is_a_difference() -> None:
    assert describe_change(identity(annotate=False), identity()) == "other settings"


def test_all_changes_are_listed_by_the_names_of_settings() -> None:
    before = identity(options=RunOptions(threshold=0.7), decisions="ab")
    now = identity(Columns(text="title", joined=("body",)), chars())
    assert [tuple(change) for change in list_changes(before, now)] == [
        ("decisions", "ab", None),
        ("shingle", "words:3", "chars:5"),
        ("text", ["text"], ["title", "body"]),
        ("threshold", 0.7, 0.8),
    ]


def test_the_library_shows_keywords() -> None:
    changed = identity(Columns(text="title", joined=("body",)))
    assert describe_change(identity(), changed) == "text='text', and this run has text='title,body'"
