"""Tests of the rules by which a kept row gets values of the rows of its cluster."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.corpus.formats.base import ValueForm
from nearkin.corpus.stored_values import decode_values, encode_values, to_plain
from nearkin.engine.merge_rules import (
    FITTING_KINDS,
    ClusterValues,
    MergedField,
    merge_values,
    parse_merged_fields,
)
from nearkin.errors import UsageError
from nearkin.settings.choices import MergeRule
from tests.engine.merge_oracle import merge_by_oracle

STORED = {ValueForm.JSON: pa.large_string(), ValueForm.OBJECT: pa.large_binary()}


def merge(rule: str, clusters: list[list[Any]], kind: pa.DataType, form: ValueForm) -> Any:
    """Returns the new values of clusters, and their sources within each cluster."""
    values = [value for cluster in clusters for value in cluster]
    stored = to_plain(encode_values(values, form, STORED.get(form, kind)))
    starts = np.cumsum([0, *map(len, clusters)])
    field = MergedField("c", MergeRule(rule))
    merged = merge_values(field, ClusterValues(stored, form, starts), str)
    assert merged.values.type == stored.type
    new = decode_values(merged.values, form).values
    if form is ValueForm.ARROW:
        new = merged.values.to_pylist()
    sources = [
        [at - first for at in those]
        for (first, _), those in zip(pairwise(starts.tolist()), merged.sources, strict=True)
    ]
    return new, sources


TEXTS = st.none() | st.sampled_from(["", " ", "a", "bb", "bb; a", "ccc", "é"])
NUMBERS = st.none() | st.integers(-9, 9)
LISTS = st.none() | st.lists(st.sampled_from(["a", "b", "é"]), max_size=3)


def clusters_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[list[Any]]]:
    return st.lists(st.lists(values, min_size=1, max_size=6), max_size=5)


@pytest.mark.parametrize("form", ValueForm)
@pytest.mark.parametrize(
    ("values", "kind", "rules"),
    [
        (TEXTS, pa.string(), ("first-non-empty", "most-frequent", "longest", "min", "union")),
        (NUMBERS, pa.int16(), ("first-non-empty", "most-frequent", "min", "max")),
        (LISTS, pa.list_(pa.string()), ("first-non-empty", "most-frequent", "longest", "union")),
    ],
)
def test_rules_agree_with_the_oracle(
    values: st.SearchStrategy[Any], kind: pa.DataType, rules: tuple[str, ...], form: ValueForm
) -> None:
    @given(clusters_of(values), st.sampled_from(rules))
    def check(clusters: list[list[Any]], rule: str) -> None:
        new, sources = merge(rule, clusters, kind, form)
        for cluster, value, those in zip(clusters, new, sources, strict=True):
            expected, places = merge_by_oracle(rule, cluster)
            assert those == places
            assert value == (expected if places else None)

    check()


@pytest.mark.parametrize(
    ("cluster", "smallest", "largest"),
    [
        (["10", "9", "1e2"], 1, 2),
        (["2024-03-01", "20240102", "2024"], 2, None),
        (["10", "9", "n/a"], None, 2),
        (["5.0", "5", "4"], 2, None),
    ],
)
def test_texts_are_compared_as_numbers_then_as_dates_then_as_texts(
    cluster: list[str], smallest: int | None, largest: int | None
) -> None:
    for rule, place in (("min", smallest), ("max", largest)):
        _, sources = merge(rule, [cluster], pa.string(), ValueForm.ARROW)
        assert sources == [[] if place is None else [place]]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.timestamp("ns"), [datetime(2024, 1, 1), datetime(2024, 1, 2)]),
        (pa.timestamp("us", "UTC"), [datetime(2024, 1, 1), datetime(2024, 1, 2)]),
        (pa.date32(), [date(2024, 1, 1), date(2024, 1, 2)]),
        (pa.duration("ns"), [timedelta(1), timedelta(2)]),
        (pa.decimal128(9, 2), [Decimal("1.10"), Decimal("9.00")]),
        (pa.float32(), [1.5, 2.5]),
        (pa.uint64(), [1, 2**64 - 1]),
        (pa.large_string(), ["a", "b"]),
    ],
)
def test_largest_value_keeps_its_type(kind: pa.DataType, values: list[Any]) -> None:
    stored = pa.array([values[0], None, values[1]], kind)
    starts = np.array([0, 3])
    column = ClusterValues(stored, ValueForm.ARROW, starts)
    merged = merge_values(MergedField("c", MergeRule.MAX), column, str)
    assert merged.values.equals(pa.array([values[1]], kind))
    assert merged.sources == [[2]]


@pytest.mark.parametrize(
    ("cluster", "largest"),
    [
        ([date(2024, 1, 2), datetime(2024, 1, 1, 9), datetime(2024, 1, 2, 8)], 2),
        ([time(9), timedelta(hours=8), timedelta(hours=30)], 2),
    ],
)
def test_days_and_times_of_a_workbook_are_compared(cluster: list[Any], largest: int) -> None:
    _, sources = merge("max", [cluster], pa.null(), ValueForm.OBJECT)
    assert sources == [[largest]]


def test_nan_is_a_missing_value() -> None:
    new, _ = merge("first-non-empty", [[float("nan"), 2.0]], pa.float64(), ValueForm.ARROW)
    assert new == [2.0]


def test_structs_and_maps_are_kept_whole() -> None:
    kind = pa.struct([("a", pa.timestamp("ns")), ("b", pa.list_(pa.int8()))])
    value = {"a": datetime(2024, 1, 1), "b": [1, 2]}
    new, _ = merge("most-frequent", [[None, value, value]], kind, ValueForm.ARROW)
    assert [dict(one, a=one["a"].to_pydatetime()) if one else one for one in new] == [value]


def test_numbers_of_any_size_and_nested_values_of_json_stay_as_they_are_written() -> None:
    stored = pa.array(["1.10", "1.2", "18446744073709551617"], pa.large_string())
    column = ClusterValues(stored, ValueForm.JSON, np.array([0, 3]))
    merged = merge_values(MergedField("c", MergeRule.MAX), column, str)
    assert merged.values.to_pylist() == ["18446744073709551617"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("phone", "'phone' is not COL:RULE"),
        ("", "'' is not COL:RULE"),
        ("phone:longst", "did you mean 'longest'"),
        ("phone:max, phone:min", "the column 'phone' has two rules"),
        (":max", "':max' is not COL:RULE"),
    ],
)
def test_invalid_rules_are_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason.replace("(", r"\(")):
        parse_merged_fields(text)


def test_column_may_have_colons() -> None:
    (field,) = parse_merged_fields(" dc:title : longest ")
    assert field == ("dc:title", MergeRule.LONGEST)


@pytest.mark.parametrize(
    ("rule", "cluster", "reason"),
    [
        ("max", [True, False], "of the type boolean; give one of first-non-empty, most-frequent"),
        ("longest", [1, 2], "of the type number; give one of first-non-empty, most-frequent, min"),
        ("union", [{"a": 1}], "of the type other"),
        ("min", [1, "a"], "of the types number and text"),
        ("union", ["a", ["b"]], "of the types text and list"),
    ],
)
def test_values_of_json_that_do_not_fit_the_rule_are_refused(
    rule: str, cluster: list[Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=f"the column 'c' of the cluster of 0.*{reason}"):
        merge(rule, [cluster], pa.null(), ValueForm.JSON)


def test_every_rule_names_the_kinds_that_it_fits() -> None:
    assert set(FITTING_KINDS) == set(MergeRule)
