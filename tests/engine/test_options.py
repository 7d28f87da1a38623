"""The options of a run: validation, parsing, and the names under which they are recorded."""

import pytest

from nearkin.engine.options import RunOptions, SecondMeasure
from nearkin.errors import UsageError
from nearkin.settings.choices import ClusterMethod, Verify
from nearkin.settings.spec import Spec


def test_recorded_parameters_keep_their_names() -> None:
    options = RunOptions(hot_bucket_size=7, second_measure="cosine:v:0.9", verify="estimate")
    recorded = options.parameters()
    assert recorded["max_bucket"] == 7
    assert recorded["then"] == "cosine:v:0.9"
    assert type(recorded["verify"]) is str
    assert not {"hot_bucket_size", "second_measure", "spec", "memory", "workers"} & set(recorded)


def test_options_are_restored_from_recorded_parameters() -> None:
    options = RunOptions(
        spec=Spec(k=64), hot_bucket_size=7, second_measure="cosine:v:0.9", workers=5
    )
    assert RunOptions.from_parameters(options.parameters(), Spec(k=64), workers=5) == options
    other = RunOptions.from_parameters(options.parameters(), Spec(k=64), bands=4, rows=3)
    assert (other.bands, other.rows, other.hot_bucket_size) == (4, 3, 7)


def test_choices_and_expressions_are_parsed_once() -> None:
    options = RunOptions(verify="none", cluster="components", second_measure="cosine:a:b:0.5")
    assert options.verify is Verify.NONE
    assert options.cluster is ClusterMethod.COMPONENTS
    assert options.parsed_second_measure == SecondMeasure("cosine", "a:b", 0.5)
    assert options.keep_policy is options.keep_policy


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"verify": "maybe"}, "verify='maybe' is not one of exact, estimate, none"),
        ({"threshold": 0}, "threshold=0 is out of range"),
        ({"floor": 0.9}, "floor 0.9 is out of range"),
        ({"bands": 3}, "bands and rows go together"),
        ({"memory": 1000}, "memory=1000 is too small"),
        ({"hot_bucket_size": 1}, "hot_bucket_size=1 is out of range; it must be at least 2"),
        ({"second_measure": "cosine:v"}, "write it as cosine:COLUMN:THRESHOLD"),
    ],
)
def test_invalid_option_is_refused_with_its_value(option: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        RunOptions(**option)  # type: ignore[arg-type]
