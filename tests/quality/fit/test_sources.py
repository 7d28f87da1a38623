"""Fits of two sources, of which only different ones are compared, against runs and plain counts."""

import itertools
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.engine.document_facts import NULL_VALUE
from nearkin.quality.evaluate.golden import (
    Labelled,
    golden_set_from_clusters,
    golden_set_from_pairs,
    score_clusters,
)
from nearkin.quality.evaluate.totals import LabelledTotals
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.documents import read_documents
from nearkin.quality.fit.labels import ClusterLabels, place_labels
from nearkin.quality.fit.sampling import sample_labels
from nearkin.quality.fit.scoring import DocumentScorer
from nearkin.quality.fit.sources import SourceCounter
from nearkin.quality.fit.validation import assign_folds
from nearkin.runs.temporary_runs import open_corpus
from nearkin.runtime.progress import Silent
from tests.quality.fit.corpora import LabelledCorpus, bibliography, records

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

DEFINITIONS = [
    Definition("words", 1, "jaccard"),
    Definition("chars", 3, "weighted-jaccard"),
    Definition("words", 2, "idf-jaccard"),
    Definition("chars", 2, "jaccard").with_components(),
]


class TwoSources(NamedTuple):
    """A labelled corpus with the source of each document."""

    corpus: LabelledCorpus
    sources: dict[str, str]

    @property
    def table(self) -> dict[str, list[str]]:
        return {**self.corpus.table, "shop": [self.sources[id] for id in self.corpus.texts]}


def in_two_sources(corpus: LabelledCorpus) -> TwoSources:
    """Puts every third document of a cluster into the source b, and the others into a and b."""
    return TwoSources(corpus, {id: "ab"[int(id.partition("-")[2]) % 2] for id in corpus.texts})


def with_lookalikes(clusters: int) -> TwoSources:
    """Returns references of which each source has lookalikes, which are no duplicates."""
    corpus = bibliography([2] * clusters, seed=11)
    texts = dict(corpus.texts)
    labels = dict(corpus.clusters)
    for number in range(clusters):
        texts[f"{number}-2"] = f"{texts[f'{number}-0']} part {'abcdefg'[number % 7]}"
        labels[f"{number}-2"] = f"other {number}"
    return in_two_sources(LabelledCorpus(texts, labels))


def place_sources(two: TwoSources) -> tuple[DocumentScorer, ClusterLabels]:
    golden = golden_set_from_clusters(two.corpus.clusters)
    sampled = sample_labels(golden, 10_000, 1)
    documents = read_documents(
        open_corpus(two.table, {}),
        Columns(id="id"),
        sampled.chosen,
        0,
        1,
        Silent(),
        across="shop",
    )
    labels = place_labels(golden, documents, Labelled.CLUSTERS, sampled)
    assert isinstance(labels, ClusterLabels)
    return DocumentScorer(documents), labels


def run_clusters(two: TwoSources, settings: object) -> dict[str, str]:
    table = nk.dedup(two.table, id="id", settings=settings).clusters  # type: ignore[arg-type]
    return dict(zip(table["id"].to_pylist(), table["cluster"].to_pylist(), strict=True))


@pytest.fixture(scope="module")
def fitted_lookalikes() -> nk.results.FitResult:
    two = with_lookalikes(60)
    return nk.fit(two.table, two.corpus.clusters, id="id", across="shop")


def test_a_run_with_the_settings_has_the_scores_of_the_fit(
    fitted_lookalikes: nk.results.FitResult,
) -> None:
    two = with_lookalikes(60)
    assert fitted_lookalikes.settings["across"] == "shop"
    golden = golden_set_from_clusters(two.corpus.clusters)
    for choice in [*fitted_lookalikes.choices, fitted_lookalikes.default]:
        assert choice is not None
        scores = score_clusters(golden, run_clusters(two, choice.settings))
        assert scores.precision is not None
        assert scores.f1 == choice.f1
        assert scores.recall.value == choice.recall.value
        assert scores.precision.value == choice.precision.value


def test_lookalikes_of_one_source_do_not_decide(fitted_lookalikes: nk.results.FitResult) -> None:
    two = with_lookalikes(60)
    everything = nk.fit(two.table, two.corpus.clusters, id="id")
    assert "across" not in everything.settings
    assert fitted_lookalikes.held_out is not None
    assert everything.held_out is not None
    assert everything.held_out.f1.value < 0.8
    assert fitted_lookalikes.held_out.f1.value > everything.held_out.f1.value + 0.1
    assert not any("of one source" in warning for warning in fitted_lookalikes.warnings)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=str)
def test_scores_at_each_threshold_are_those_of_runs_across_sources(definition: Definition) -> None:
    two = in_two_sources(bibliography([5, 4, 3, 3, 2, 2, 2, 1, 1, 1], seed=5))
    scorer, labels = place_sources(two)
    scores = labels.score(scorer, definition)
    everyone = np.ones(len(two.sources), bool)
    curve = scores.curve(everyone, 0.2)
    golden = golden_set_from_clusters(two.corpus.clusters)
    folds = assign_folds(labels.groups, labels.duplicates_of_groups, 1)
    for position, threshold in enumerate(curve.thresholds.tolist()):
        settings = {**definition.settings(threshold), "across": "shop"}
        run = score_clusters(golden, run_clusters(two, settings))
        assert run.f1 is not None
        assert scores.totals(everyone, threshold).f1() == run.f1
        assert curve.f1[position] == pytest.approx(run.f1.value)
        parts = [
            scores.held_out_totals(folds == fold, threshold) for fold in range(folds.max() + 1)
        ]
        assert LabelledTotals.combine(parts).f1().value == pytest.approx(run.f1.value)


def test_extrapolated_precision_is_that_of_both_sources() -> None:
    # One source has four times as many documents as the other. Texts share words.
    corpus = records([2] * 150 + [1] * 600, seed=9)
    texts = {id: " ".join(text.split()[2:5]) for id, text in corpus.texts.items()}
    numbers = {id: int(name) for id, name in corpus.clusters.items()}
    sources = {
        id: "a" if id.endswith("-1") or (number > 150 and number % 9 == 0) else "b"
        for id, number in numbers.items()
    }
    two = TwoSources(LabelledCorpus(texts, corpus.clusters), sources)
    scorer, labels = place_sources(two)
    scores = labels.score(scorer, Definition("chars", 2, "jaccard"))
    whole = scores.totals(np.ones(len(texts), bool), 0.5)
    golden = golden_set_from_clusters(corpus.clusters)
    estimates = []
    uncorrected = []
    for seed in range(40):
        chosen = np.isin(scorer.documents.ids, sample_labels(golden, 200, seed).chosen)
        met = sum(
            sources[a] != sources[b]
            for a, b in itertools.product(np.array(scorer.documents.ids)[chosen], texts)
        )
        of_members = np.array([sources[id] == "a" for id in scorer.documents.ids])[chosen]
        compared = 2 * int(of_members.sum()) * int((~of_members).sum())
        assert labels.factor(chosen) == pytest.approx(met / compared)
        totals = scores.totals(chosen, 0.5)
        estimates.append(float(totals.all.wrong / totals.all.duplicates))
        uncorrected.append(estimates[-1] / labels.factor(chosen))
    expected = float(whole.all.wrong / whole.all.duplicates)
    assert expected > 0.2
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - expected) < 4 * error + 0.1 * expected
    assert np.mean(uncorrected) < expected / 2


def test_labelled_clusters_with_several_documents_of_one_source_are_counted_and_named() -> None:
    two = in_two_sources(records([4] * 12 + [1] * 12))
    fitted = nk.fit(two.table, two.corpus.clusters, id="id", across="shop")
    # Each cluster of four has two documents in each source.
    assert fitted.labels.duplicates == 12 * 6
    assert fitted.labels.duplicates_of_one_source == 12 * 2
    (warning,) = [one for one in fitted.warnings if "of one source" in one]
    assert warning.startswith("24 of 72 labelled pairs of duplicates are of one source")
    quoted = warning.split("'")
    assert two.sources[quoted[1]] == two.sources[quoted[3]]
    assert two.corpus.clusters[quoted[1]] == two.corpus.clusters[quoted[3]]
    assert all(two.sources[one.id_a] != two.sources[one.id_b] for one in fitted.missed_pairs)


def test_labelled_pairs_of_one_source_are_never_found() -> None:
    two = in_two_sources(records([4] * 20 + [1] * 10))
    ids = sorted(two.sources)
    pairs = [
        (a, b) for a, b in itertools.combinations(ids, 2) if a.split("-")[0] == b.split("-")[0]
    ]
    duplicates = len(pairs)
    pairs += zip(ids, ids[7:], strict=False)
    is_duplicate = [two.corpus.clusters[a] == two.corpus.clusters[b] for a, b in pairs]
    fitted = nk.fit(two.table, golden_set_from_pairs(pairs, is_duplicate), id="id", across="shop")
    of_one = [two.sources[a] == two.sources[b] for a, b in pairs]
    assert fitted.labels.duplicates_of_one_source == sum(of_one[:duplicates]) == 40
    assert fitted.labels.distinct_of_one_source == sum(of_one[duplicates:])
    assert any("so they are never found" in warning for warning in fitted.warnings)
    assert any("labelled distinct pairs are of one source" in one for one in fitted.warnings)
    run = nk.pairs(two.table, id="id", settings=fitted.settings).pairs
    listed = {
        frozenset(pair)
        for pair in zip(run["id_a"].to_pylist(), run["id_b"].to_pylist(), strict=True)
    }
    together = sum(frozenset(pair) in listed for pair in pairs[:duplicates])
    wrong = sum(frozenset(pair) in listed for pair in pairs[duplicates:])
    assert fitted.best.recall.value == together / duplicates <= 2 / 3
    assert fitted.best.precision.value == together / (together + wrong)
    assert all(two.sources[one.id_a] != two.sources[one.id_b] for one in fitted.missed_pairs)


def test_labels_of_one_source_alone_are_refused() -> None:
    table = {"id": ["a", "b", "c"], "text": ["x y", "x z", "u v"], "shop": ["1", "1", "2"]}
    with pytest.raises(nk.UsageError, match="all 1 labelled pairs of duplicates are of one source"):
        nk.fit(table, {"a": "1", "b": "1", "c": "2"}, id="id", across="shop")
    pairs = golden_set_from_pairs([("a", "b"), ("b", "c")], [False, True])
    with pytest.raises(nk.UsageError, match="all 1 labelled distinct pairs are of one source"):
        nk.fit(table, pairs, id="id", across="shop")


def test_unknown_columns_of_sources_are_refused() -> None:
    corpus = records([2] * 3)
    with pytest.raises(nk.UsageError, match="no column 'shop'"):
        nk.fit(corpus.table, corpus.clusters, id="id", across="shop")


def test_documents_without_a_source_are_a_source_and_are_counted() -> None:
    corpus = records([2] * 8 + [1] * 4)
    shops = [None if id.endswith("-0") else "b" for id in corpus.texts]
    table = pa.table({**corpus.table, "shop": pa.array(shops, pa.string())})
    fitted = nk.fit(table, corpus.clusters, id="id", across="shop")
    assert any(one.startswith("12 documents have no value in") for one in fitted.warnings)
    assert fitted.best.f1.value == 1.0


def test_sources_are_counted_over_all_parts_of_a_corpus() -> None:
    counter = SourceCounter("shop")
    counter.add(pa.array(["x", "y", None], pa.large_string()))
    counter.add(pa.array(["y", "y"], pa.large_string()))
    sources = counter.sources_of(pa.array(["x", "y", None], pa.large_string()))
    assert sources.sizes.tolist() == [1, 3, 1]
    assert sources.hashes[2] == NULL_VALUE
    assert sources.without_value == 1
    assert sources.count_equal(np.array([True, False, True])).tolist() == [1, 0, 1]


def test_single_labelled_documents_meet_a_share_of_each_source() -> None:
    two = in_two_sources(records([2] * 30, seed=3))
    golden = golden_set_from_clusters(two.corpus.clusters)
    sampled = sample_labels(golden, 20, 1)
    documents = read_documents(
        open_corpus(two.table, {}),
        Columns(id="id"),
        sampled.chosen,
        0,
        1,
        Silent(),
        sampled.left_out,
        across="shop",
    )
    labels = place_labels(golden, documents, Labelled.DOCUMENTS, sampled)
    assert isinstance(labels, ClusterLabels)
    # Each of 60 labelled documents meets 30 of the other source; of 20, each met 10.
    assert labels.factor(np.ones(len(documents), bool)) == pytest.approx(30 / 10)


@pytest.mark.parametrize("content", ["tokens", "vector"])
def test_tokens_and_vectors_are_fitted_across_sources_as_runs_compare_them(content: str) -> None:
    two = in_two_sources(records([2] * 12 + [1] * 8, seed=21))
    rng = np.random.default_rng(21)
    centers = {name: rng.normal(size=8) for name in set(two.corpus.clusters.values())}
    values: list[object]
    if content == "tokens":
        values = [list(text) for text in two.corpus.texts.values()]
    else:
        values = [
            (centers[name] + rng.normal(scale=0.35, size=8)).tolist()
            for name in two.corpus.clusters.values()
        ]
    table = {"id": list(two.corpus.texts), content: values, "shop": two.table["shop"]}
    column = {content: content}
    fitted = nk.fit(table, two.corpus.clusters, id="id", across="shop", **column)  # type: ignore[arg-type]
    assert fitted.settings["across"] == "shop"
    clusters = nk.dedup(table, id="id", settings=fitted.settings, **column).clusters  # type: ignore[arg-type]
    predicted = dict(zip(clusters["id"].to_pylist(), clusters["cluster"].to_pylist(), strict=True))
    run = score_clusters(golden_set_from_clusters(two.corpus.clusters), predicted)
    assert run.precision is not None
    assert fitted.best.recall.value == pytest.approx(run.recall.value)
    assert fitted.best.precision.value == pytest.approx(run.precision.value)
    assert fitted.best.recall.value > 0
