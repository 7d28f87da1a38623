"""Precision and recall at every threshold, against runs and plain counts."""

import itertools
from dataclasses import asdict

import numpy as np
import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.quality.evaluate.golden import (
    Labelled,
    golden_set_from_clusters,
    golden_set_from_pairs,
    score_clusters,
)
from nearkin.quality.evaluate.totals import LabelledTotals
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.documents import read_documents
from nearkin.quality.fit.labels import (
    ClusterLabels,
    PairLabels,
    _ClusterScores,
    _PairScores,
    place_labels,
)
from nearkin.quality.fit.sampling import LabelledSample, sample_labels
from nearkin.quality.fit.scoring import DocumentScorer
from nearkin.quality.fit.validation import assign_folds
from nearkin.runs.temporary_runs import open_corpus
from nearkin.runtime.progress import Silent
from nearkin.stages.packed_pairs import pack_pairs
from tests.quality.fit.corpora import LabelledCorpus, bibliography, records, shingle_set

SIZES = [5, 4, 3, 3, 2, 2, 2, 1, 1, 1]
DEFINITIONS = [
    Definition("words", 1, "jaccard"),
    Definition("chars", 3, "weighted-jaccard"),
    Definition("words", 2, "idf-jaccard", ("nfkc", "lower", "digits")),
    Definition("chars", 2, "jaccard").with_components(),
    Definition("chars", 2, "jaccard").with_components(0.0),
    Definition("chars", 3, "containment"),
    Definition("words", 1, "jaccard", least_containment=0.5),
    Definition("words", 1, "idf-jaccard", ("nfkc", "lower", "digits"), needs_equal_numbers=True),
]


def place_corpus(
    corpus: LabelledCorpus,
    labelled: dict[str, str] | None = None,
    others: int = 0,
    table: dict[str, list[str | None]] | None = None,
) -> tuple[DocumentScorer, ClusterLabels]:
    golden = golden_set_from_clusters(labelled or corpus.clusters)
    sampled = sample_labels(golden, 10_000, 1)
    names = [name for name in table or ["text"] if name != "id"]
    documents = read_documents(
        open_corpus(table or corpus.table, {}),
        Columns(text=names[0], joined=tuple(names[1:]), id="id"),
        sampled.chosen,
        others,
        1,
        Silent(),
        choosable=names,
    )
    labels = place_labels(golden, documents, Labelled.CLUSTERS, sampled)
    assert isinstance(labels, ClusterLabels)
    return DocumentScorer(documents), labels


def run_clusters(corpus: LabelledCorpus, settings: dict[str, object]) -> dict[str, str]:
    table = nk.dedup(corpus.table, id="id", settings=settings).clusters
    return dict(zip(table["id"].to_pylist(), table["cluster"].to_pylist(), strict=True))


def place_all_pairs(corpus: LabelledCorpus) -> _PairScores:
    """Returns the similarities of all pairs of a corpus, each of which is labelled."""
    pairs = list(itertools.combinations(sorted(corpus.texts), 2))
    labels = [corpus.clusters[a] == corpus.clusters[b] for a, b in pairs]
    golden = golden_set_from_pairs(pairs, labels)
    documents = read_documents(
        open_corpus(corpus.table, {}), Columns(id="id"), golden.ids, 0, 1, Silent()
    )
    placed = place_labels(golden, documents, Labelled.CLUSTERS, LabelledSample(golden.ids, (), 0))
    scores = placed.score(DocumentScorer(documents), Definition("chars", 2, "jaccard"))
    assert isinstance(scores, _PairScores)
    return scores


@pytest.mark.parametrize("definition", DEFINITIONS, ids=str)
def test_scores_at_each_threshold_are_those_of_runs(definition: Definition) -> None:
    corpus = bibliography(SIZES, seed=5)
    scorer, labels = place_corpus(corpus)
    scores = labels.score(scorer, definition)
    everyone = np.ones(len(corpus.texts), bool)
    curve = scores.curve(everyone, 0.2)
    golden = golden_set_from_clusters(corpus.clusters)
    for position, threshold in enumerate(curve.thresholds.tolist()):
        settings = definition.settings(threshold)
        clusters = run_clusters(corpus, settings)
        run = score_clusters(golden, clusters)
        assert run.precision is not None
        assert run.f1 is not None
        totals = scores.totals(everyone, threshold)
        assert (totals.f1(), totals.recall().value) == (run.f1, run.recall.value)
        assert curve.f1[position] == pytest.approx(run.f1.value)
        assert curve.precision[position] == pytest.approx(run.precision.value)
        kept = set(clusters.values())
        copies: dict[str, int] = dict.fromkeys(corpus.clusters.values(), 0)
        for id in kept:
            copies[corpus.clusters[id]] += 1
        assert curve.lost is not None
        assert curve.removed is not None
        assert curve.lost[position] == list(copies.values()).count(0) / len(copies)
        redundant = len(corpus.texts) - len(copies)
        left = sum(max(count - 1, 0) for count in copies.values())
        assert curve.removed[position] == 1 - left / redundant
        of_fold = scores.held_out_kept(everyone, threshold)
        assert of_fold is not None
        assert of_fold.lost_share == curve.lost[position]
        assert of_fold.removed_share == pytest.approx(curve.removed[position])


@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_scores_of_chosen_columns_are_those_of_runs(measure: str) -> None:
    """The columns have a keep order of their own, and a document without a text is distinct."""
    corpus = records(SIZES, seed=3)
    words = [text.split(" ", 2) for text in corpus.texts.values()]
    table: dict[str, list[str | None]] = {
        "id": list(corpus.texts),
        "name": [each[0] for each in words],
        "surname": [each[1] for each in words],
        "rest": [None, *(each[2] for each in words[1:])],
    }
    scorer, labels = place_corpus(corpus, table=table)
    definition = Definition("chars", 2, measure, columns=("name", "rest"))
    scores = labels.score(scorer, definition)
    everyone = np.ones(len(corpus.texts), bool)
    golden = golden_set_from_clusters(corpus.clusters)
    for threshold in (0.4, 0.6, 0.9):
        result = nk.dedup(table, id="id", settings=definition.settings(threshold)).clusters
        ids = result["id"].to_pylist()
        predicted = dict(zip(ids, result["cluster"].to_pylist(), strict=True))
        run = score_clusters(golden, predicted)
        assert run.f1 is not None
        assert scores.totals(everyone, threshold).f1() == run.f1
    mistakes = scores.mistakes(0.9)
    assert len(mistakes.missed_pairs) > 0
    for pairs, similarity in (mistakes[:2], mistakes[2:]):
        scored = scorer.score_pairs(definition, pack_pairs(*pairs.T))
        is_listed = similarity > 0
        assert scored[is_listed].tolist() == similarity[is_listed].tolist()


@pytest.mark.parametrize("unit", ["words", "chars"])
@pytest.mark.parametrize("threshold", [0.2, 0.4, 0.6])
def test_copies_that_are_equal_after_normalisation_are_one_group_as_in_runs(
    threshold: float, unit: str
) -> None:
    original = records(SIZES, seed=9)
    texts = dict(original.texts)
    clusters = dict(original.clusters)
    for number, (id, text) in enumerate(original.texts.items()):
        # of another length, so that the copies have other places in the keep order
        texts[f"{id}-copy"] = f"{' ' * (number % 4)}{text.upper()}"
        clusters[f"{id}-copy"] = clusters[id]
    corpus = LabelledCorpus(texts, clusters)
    scorer, labels = place_corpus(corpus)
    definition = Definition(unit, 2, "jaccard")
    everyone = np.ones(len(texts), bool)
    scores = labels.score(scorer, definition)
    assert isinstance(scores, _ClusterScores)
    predicted = scores.predict(everyone, threshold).tolist()
    ids = scorer.documents.ids
    run = run_clusters(corpus, definition.settings(threshold))
    assert {id: ids[kept] for id, kept in zip(ids, predicted, strict=True)} == run
    assert all(run[id] == run[f"{id}-copy"] for id in original.texts)


def test_documents_without_labels_are_distinct_from_labelled_clusters() -> None:
    corpus = records(SIZES, seed=6)
    labelled = {id: name for id, name in corpus.clusters.items() if int(name) < 5}
    scorer, labels = place_corpus(corpus, labelled, others=100)
    definition = Definition("chars", 2, "jaccard")
    everyone = np.ones(len(corpus.texts), bool)
    golden = golden_set_from_clusters(labelled)
    for threshold in (0.1, 0.2, 0.4):
        settings = definition.settings(threshold)
        clusters = run_clusters(corpus, settings)
        run = score_clusters(golden, clusters)
        assert labels.score(scorer, definition).totals(everyone, threshold).f1() == run.f1


def test_subsets_are_scored_without_the_other_documents() -> None:
    corpus = records(SIZES, seed=7)
    scorer, labels = place_corpus(corpus)
    members = labels.groups % 2 == 0
    inside = {id for id, is_member in zip(scorer.documents.ids, members, strict=True) if is_member}
    smaller = LabelledCorpus(
        {id: text for id, text in corpus.texts.items() if id in inside},
        {id: name for id, name in corpus.clusters.items() if id in inside},
    )
    definition = Definition("chars", 2, "jaccard")
    scores = labels.score(scorer, definition)
    other_scorer, other_labels = place_corpus(smaller)
    expected = other_labels.score(other_scorer, definition).totals(np.ones(len(inside), bool), 0.3)
    totals = scores.totals(members, 0.3)
    assert totals.recall() == expected.recall()
    factor = (len(corpus.texts) - 1) / (len(inside) - 1)
    assert totals.all.wrong == pytest.approx(expected.all.wrong * factor)


def test_extrapolated_precision_is_that_of_the_whole_corpus() -> None:
    # 400 clusters whose texts share words, so that a low threshold joins many wrong pairs.
    corpus = records([2] * 400, seed=9)
    texts = {id: " ".join(text.split()[2:5]) for id, text in corpus.texts.items()}
    corpus = LabelledCorpus(texts, corpus.clusters)
    definition = Definition("chars", 2, "jaccard")
    threshold = 0.57
    scorer, labels = place_corpus(corpus)
    scores = labels.score(scorer, definition)
    whole = scores.totals(np.ones(len(texts), bool), threshold)
    golden = golden_set_from_clusters(corpus.clusters)
    estimates = []
    uncorrected = []
    for seed in range(40):
        sampled = sample_labels(golden, 200, seed)
        chosen = np.isin(scorer.documents.ids, sampled.chosen)
        totals = scores.totals(chosen, threshold)
        estimates.append(float(totals.all.wrong / totals.all.duplicates))
        uncorrected.append(estimates[-1] / labels.factor(chosen))
    expected = float(whole.all.wrong / whole.all.duplicates)
    assert expected > 0.2
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - expected) < 4 * error + 0.1 * expected
    assert np.mean(uncorrected) < expected / 2


def test_similarities_of_pairs_are_exact() -> None:
    corpus = records(SIZES)
    scorer, _ = place_corpus(corpus)
    ids = scorer.documents.ids
    first, second = np.triu_indices(len(ids), 1)
    similarity = scorer.score_pairs(Definition("chars", 3, "jaccard"), pack_pairs(first, second))
    sets = [shingle_set(corpus.texts[id], "chars", 3) for id in ids]
    for a, b, value in zip(first, second, similarity.tolist(), strict=True):
        assert value == pytest.approx(len(sets[a] & sets[b]) / len(sets[a] | sets[b]))


def test_most_similar_pairs_are_kept_when_there_are_too_many() -> None:
    corpus = records([2] * 100, seed=3)
    scorer, _ = place_corpus(corpus)
    definition = Definition("chars", 2, "jaccard")
    every_pair = scorer.most_similar_pairs(definition, 10**6)
    most_similar = scorer.most_similar_pairs(definition, 500)
    assert 0 < len(most_similar.later) <= 500
    above = every_pair.select(every_pair.similarity > most_similar.floor)
    assert np.sort(above.similarity).tolist() == np.sort(most_similar.similarity).tolist()
    assert (np.diff(most_similar.later.astype(np.int64)) >= 0).all()


def test_pairs_are_counted_by_their_own_similarity() -> None:
    corpus = records(SIZES)
    ids = sorted(corpus.texts)
    pairs = list(itertools.pairwise(ids)) + list(zip(ids, ids[5:], strict=False))
    truth = [corpus.clusters[a] == corpus.clusters[b] for a, b in pairs]
    golden = golden_set_from_pairs(pairs, truth)
    sampled = LabelledSample(golden.ids, (), 0)
    documents = read_documents(
        open_corpus(corpus.table, {}), Columns(id="id"), golden.ids, 0, 1, Silent()
    )
    labels = place_labels(golden, documents, Labelled.CLUSTERS, sampled)
    assert isinstance(labels, PairLabels)
    scores = labels.score(DocumentScorer(documents), Definition("chars", 2, "jaccard"))
    everyone = np.ones(len(documents), bool)
    curve = scores.curve(everyone, 0.05)
    sets = {id: shingle_set(text, "chars", 2) for id, text in corpus.texts.items()}
    similar = [len(sets[a] & sets[b]) / len(sets[a] | sets[b]) for a, b in pairs]
    for position, threshold in enumerate(curve.thresholds.tolist()):
        judged = [(value >= threshold, label) for value, label in zip(similar, truth, strict=True)]
        assert curve.together[position] == judged.count((True, True))
        assert curve.wrong[position] == judged.count((True, False))
        totals = scores.totals(everyone, threshold)
        assert totals.all.together == judged.count((True, True))
        assert totals.all.wrong == judged.count((True, False))


@pytest.mark.parametrize("definition", DEFINITIONS[::3], ids=str)
def test_folds_with_one_choice_add_up_to_the_scores_of_all_documents(
    definition: Definition,
) -> None:
    corpus = bibliography(SIZES * 3, seed=5)
    scorer, labels = place_corpus(corpus)
    scores = labels.score(scorer, definition)
    folds = assign_folds(labels.groups, labels.duplicates_of_groups, 1)
    everyone = np.ones(len(folds), bool)
    for threshold in (0.2, 0.3, 0.5):
        parts = [scores.held_out_totals(folds == fold, threshold) for fold in range(5)]
        pooled = LabelledTotals.combine(parts)
        totals = scores.totals(everyone, threshold)
        for one, other in (
            (pooled.precision(), totals.precision()),
            (pooled.recall(), totals.recall()),
            (pooled.f1(), totals.f1()),
        ):
            assert asdict(one) == pytest.approx(asdict(other))


def test_folds_of_connected_pairs_add_up_to_the_scores_of_all_pairs() -> None:
    """All pairs are labelled, so that distinct ones connect all documents."""
    corpus = bibliography(SIZES * 2, seed=5)
    scores = place_all_pairs(corpus)
    labels = scores.labels
    folds = assign_folds(labels.groups, labels.duplicates_of_groups, 1)
    everyone = np.ones(len(folds), bool)
    for threshold in (0.1, 0.15, 0.2):
        parts = [scores.held_out_totals(folds == fold, threshold) for fold in range(5)]
        pooled = LabelledTotals.combine(parts)
        totals = scores.totals(everyone, threshold)
        assert totals.all.wrong > 0
        assert asdict(pooled.precision()) == pytest.approx(asdict(totals.precision()))
        assert asdict(pooled.f1()) == pytest.approx(asdict(totals.f1()))


def test_precision_of_connected_pairs_does_not_depend_on_the_share_of_the_documents() -> None:
    """Two thirds of the clusters have two thirds of the duplicates, and fewer distinct pairs."""
    corpus = bibliography(SIZES * 2, seed=5)
    scores = place_all_pairs(corpus)
    whole = scores.curve(np.ones(scores.documents, bool), 0.1)
    groups = scores.labels.groups
    shares = []
    for seed in range(40):
        drawn = np.random.default_rng(seed).permutation(groups.max() + 1) < len(SIZES) * 4 // 3
        curve = scores.curve(drawn[groups], 0.1)
        shares.append([curve.wrong.sum(), curve.together.sum()])
    wrong, together = np.array(shares).T
    estimates = wrong / together
    error = estimates.std() / np.sqrt(len(estimates))
    assert abs(estimates.mean() - whole.wrong.sum() / whole.together.sum()) < 4 * error
    # without the extrapolation, the share is two thirds of it
    assert 4 * error < whole.wrong.sum() / whole.together.sum() / 5
