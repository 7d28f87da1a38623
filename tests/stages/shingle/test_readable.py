"""Tests of shingles as text: they are those that a run compares."""

import pytest

from nearkin.engine.options import RunOptions
from nearkin.quality.evaluate.explain import explain
from nearkin.settings.spec import Spec

JOB = "I have worked in {} for ten years, and I know it."


@pytest.mark.parametrize(
    ("step", "first", "second"),
    [("symbols", "in c +", "in c #"), ("punctuation", "c + +", "c # for")],
)
def test_examples_of_shingles_have_the_signs_that_count_as_words(
    step: str, first: str, second: str
) -> None:
    spec = Spec(normalise=("nfkc", "lower", step))
    settings = RunOptions(spec=spec)
    pair = explain(JOB.format("C++"), JOB.format("C#"), settings=settings)
    _, only_first, only_second = pair.shingles.examples
    assert first in only_first
    assert second in only_second
