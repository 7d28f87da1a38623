"""Spark measures the same information lost as the local engine."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.reports.model import ReportData
from tests.engine.local.test_acceptance import make_texts

BANDED = {"bands": 64, "rows": 2}


@pytest.mark.parametrize(
    "options",
    [
        {"same": "key", "cluster": "components"},
        pytest.param({**BANDED, "same": "key", "cluster": "components"}, marks=pytest.mark.full),
        pytest.param({**BANDED, "same": "key"}, marks=pytest.mark.full),
        pytest.param({**BANDED, "cluster": "components"}, marks=pytest.mark.full),
        pytest.param({"keep_up_to": 2}, marks=pytest.mark.full),
        pytest.param({"keep": "most-complete"}, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_lost_information_is_that_of_the_local_engine(
    options: dict[str, Any], spark: SparkSession
) -> None:
    texts = make_texts(60, seed=9)
    # The shingles of a text that is doubled are repeated. They count once.
    texts += [f"{text} {text}" for text in texts[10:20]]
    texts += [*texts[:9], "", ""]
    rows = [
        {
            "id": f"d{number:03}",
            "text": text,
            "source": ("a", "b", None)[number % 3],
            "key": f"k{number % 40}" if number % 5 == 0 else None,
        }
        for number, text in enumerate(texts)
    ]
    settings = {
        "id": "id",
        "shingle": "words:2",
        "threshold": 0.5,
        "k": 128,
        "source": "source",
        **options,
    }
    expected = nk.dedup(pa.Table.from_pylist(rows), **settings).report_data
    frame = spark.createDataFrame(rows, "id string, text string, source string, key string")
    with nks.dedup(frame, **settings) as result:
        report = result.report_data
    require_equal_losses(report, expected)
    assert expected.lost is not None
    assert expected.lost.total.worst > 0
    assert expected.lost.unmeasured > 0 or "same" not in options


def require_equal_losses(report: ReportData, expected: ReportData) -> None:
    """Requires that two reports have the same losses, whatever the order of equal ones."""
    assert report.lost is not None
    assert expected.lost is not None
    assert report.lost.unmeasured == expected.lost.unmeasured
    shares = [report.lost.total, *report.lost.sources]
    expected_shares = [expected.lost.total, *expected.lost.sources]
    for share, expected_share in zip(shares, expected_shares, strict=True):
        assert share == expected_share._replace(mean=share.mean)
        assert share.mean == pytest.approx(expected_share.mean)
    worst = report.lost.worst
    expected_worst = expected.lost.worst
    assert [entry.lost for entry in worst] == [entry.lost for entry in expected_worst]
    last = worst[-1].lost
    assert {entry for entry in worst if entry.lost > last} == (
        {entry for entry in expected_worst if entry.lost > last}
    )
