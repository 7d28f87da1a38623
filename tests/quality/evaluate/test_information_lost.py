"""The information that runs lost, against sets in Python."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.quality.evaluate.information_lost import LISTED_REMOVALS
from nearkin.reports.model import LostReport, ReportData
from nearkin.reports.page import render_page
from nearkin.runs.run_record import RunRecord
from tests.engine.test_acceptance import make_texts

TEXTS = make_texts(120, seed=9)
SOURCES = [("a", "b", None)[number % 3] for number in range(len(TEXTS))]


def lost_of(result: nk.results.DedupResult) -> LostReport:
    lost = result.report_data.lost
    assert lost is not None
    return lost


@pytest.mark.parametrize("cluster", ["leaders", "components"])
def test_lost_information_is_that_of_sets(cluster: str) -> None:
    table = {"text": TEXTS, "source": SOURCES}
    result = nk.dedup(table, shingle="words:2", threshold=0.5, cluster=cluster, source="source")
    sets = [set(itertools.pairwise(text.lower().split())) for text in TEXTS]
    leaders = [int(cluster) for cluster in result.clusters["cluster"].to_pylist()]
    removed = np.flatnonzero(~result.kept).tolist()
    missing = {number: len(sets[number] - sets[leaders[number]]) for number in removed}
    shares = {number: count / len(sets[number]) for number, count in missing.items()}
    lost = lost_of(result)
    assert lost.total.removed == len(removed)
    assert lost.total.shingles == sum(missing.values())
    assert lost.total.mean == pytest.approx(sum(shares.values()) / len(removed))
    assert lost.total.worst == max(shares.values())
    for share in lost.sources:
        value = None if share.source == "(none)" else share.source
        own = [number for number in removed if SOURCES[number] == value]
        assert share.removed == len(own)
        assert share.worst == max(shares[number] for number in own)
        assert share.mean == pytest.approx(sum(shares[number] for number in own) / len(own))
    assert {share.source for share in lost.sources} == {"a", "b", "(none)"}
    worst = sorted(removed, key=lambda number: (-shares[number], number))[:LISTED_REMOVALS]
    assert [int(example.removed) for example in lost.worst] == worst
    assert [int(example.kept) for example in lost.worst] == [leaders[number] for number in worst]
    assert lost.worst[0].text_removed == TEXTS[worst[0]]


def test_lost_information_is_not_known_without_exact_sets() -> None:
    assert nk.dedup(TEXTS, measure="simhash").report_data.lost is None
    banded = {"bands": 20, "rows": 5, "verify": "estimate"}
    assert nk.dedup(TEXTS, **banded).report_data.lost is None  # type: ignore[arg-type]


def test_runs_without_removed_documents_lose_nothing() -> None:
    lost = lost_of(nk.dedup(["one text of five words", "quite another one than that"]))
    assert (lost.total.removed, lost.total.worst, lost.worst) == (0, 0.0, ())
    assert lost_of(nk.dedup([])).total.removed == 0
    copies = lost_of(nk.dedup(["one text of five words"] * 3))
    assert (copies.total.removed, copies.total.mean, copies.worst) == (2, 0.0, ())


def test_documents_that_a_reference_removes_lose_what_its_document_lacks() -> None:
    reference = ["one text of a reference", "some other text of a reference"]
    texts = ["one text of a reference", "some other text of a reference too", "a b c d", "a b c d"]
    plain = lost_of(nk.dedup(texts, threshold=0.5, against=reference))
    assert (plain.unmeasured, plain.total.removed, plain.total.worst) == (0, 3, 0.2)
    assert plain.worst == ()
    result = nk.dedup(texts, accept="jaccard >= 0.5", against=reference)
    lost = lost_of(result)
    assert (lost.total, lost.unmeasured) == (plain.total, 0)
    (example,) = lost.worst
    assert (example.text_kept, example.text_removed) == (reference[1], texts[1])
    assert '<span class="tag">reference</span>' in render_page(result.report_data)
    values = json.loads(result.report_data.to_json())
    assert values["lost"]["worst"][0].pop() is True
    assert ReportData.from_dict(values).lost.worst[0].in_reference is False


def test_documents_with_an_equal_value_are_measured_only_if_they_are_copies() -> None:
    table = {
        "text": ["a b c d e f", "quite another text", "a b c d e f", "a b c d e f g h"],
        "key": ["1", "1", "1", "2"],
    }
    lost = lost_of(nk.dedup(table, same="key", threshold=0.5, keep="key desc"))
    assert lost.unmeasured == 1
    assert (lost.total.removed, lost.total.worst) == (2, 0.0)


def test_documents_that_a_second_measure_removes_are_not_measured() -> None:
    vectors = np.eye(4, 2, dtype=np.float32) + 1
    table = {"text": ["a b c d", "e f g h", "a b c d", "i j k l"], "v": list(vectors)}
    lost = lost_of(nk.dedup(table, second_measure="cosine:v:0.5"))
    assert lost.unmeasured > 0
    assert lost.unmeasured + lost.total.removed == 3


def test_the_report_and_the_run_record_say_what_was_lost(tmp_path: Path) -> None:
    result = nk.dedup(TEXTS, shingle="words:2", threshold=0.5)
    page = render_page(result.report_data)
    assert "Information lost" in page
    assert "The 20 removed documents that lost most" in page
    assert ReportData.from_json(result.report_data.to_json()) == result.report_data
    folder = result.write(tmp_path / "out")
    record = json.loads((folder / "run.json").read_bytes())
    if "information_lost" in record:
        assert RunRecord.from_json(record).to_json() == record
