"""The choice of settings, against exhaustive searches and against runs."""

import itertools
import random
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.quality.evaluate.golden import (
    golden_set_from_clusters,
    golden_set_from_pairs,
    score_clusters,
)
from tests.quality.fit.corpora import (
    LabelledCorpus,
    best_exhaustive_f1,
    bibliography,
    copies,
    make_word,
    records,
    templates,
)

SIZES = [3] * 20 + [2] * 25 + [1] * 30


def fit(corpus: LabelledCorpus, **options: object) -> nk.results.FitResult:
    return nk.fit(corpus.table, corpus.clusters, id="id", **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def fitted_records() -> nk.results.FitResult:
    return fit(records(SIZES))


@pytest.mark.parametrize("make", [records, bibliography, templates, copies])
def test_held_out_f1_reaches_that_of_an_exhaustive_search(
    make: Callable[[Sequence[int]], LabelledCorpus], fitted_records: nk.results.FitResult
) -> None:
    corpus = make(SIZES)
    fitted = fitted_records if make is records else fit(corpus)
    assert fitted.held_out is not None
    assert fitted.held_out.f1.value >= best_exhaustive_f1(corpus) - 0.02
    assert fitted.best.f1.value >= fitted.held_out.f1.value - 0.02


def test_numbers_are_folded_on_templates() -> None:
    fitted = fit(templates(SIZES))
    assert {"digits", "number"} & set(fitted.best.definition.normalise)
    assert fitted.best.f1.value == 1.0


def test_a_run_with_the_settings_has_the_scores_of_the_fit(
    fitted_records: nk.results.FitResult, tmp_path: object
) -> None:
    corpus = records(SIZES)
    table = nk.dedup(corpus.table, id="id", settings=fitted_records.settings).clusters
    clusters = dict(zip(table["id"].to_pylist(), table["cluster"].to_pylist(), strict=True))
    scores = score_clusters(golden_set_from_clusters(corpus.clusters), clusters)
    assert scores.f1 == fitted_records.best.f1
    assert scores.precision is not None
    assert scores.precision.value == fitted_records.best.precision.value
    assert fitted_records.default is not None
    assert fitted_records.default.f1.value < scores.f1.value


@pytest.mark.parametrize("labelled", ["clusters", "documents"])
def test_a_run_over_unlabelled_documents_too_has_the_scores_of_the_fit(labelled: str) -> None:
    corpus = short_texts(clusters=30)
    half = sorted(corpus.clusters)[::2]
    if labelled == "clusters":
        half = [id for id, name in corpus.clusters.items() if int(name) % 2]
    golden = golden_set_from_clusters({id: corpus.clusters[id] for id in half})
    fitted = nk.fit(corpus.table, golden, id="id", labelled=labelled)
    table = nk.dedup(corpus.table, id="id", settings=fitted.settings).clusters
    clusters = dict(zip(table["id"].to_pylist(), table["cluster"].to_pylist(), strict=True))
    scores = score_clusters(golden, clusters, labelled=labelled)
    assert scores.precision is not None
    assert scores.f1 is not None
    assert scores.f1.value < 1
    assert scores.precision.value == pytest.approx(fitted.best.precision.value)
    assert scores.recall.value == pytest.approx(fitted.best.recall.value)
    assert scores.f1.value == pytest.approx(fitted.best.f1.value)


def short_texts(clusters: int) -> LabelledCorpus:
    """Returns clusters of texts of a few words, of which two may differ from the others."""
    source = random.Random(4)
    texts: dict[str, str] = {}
    names = {}
    for cluster in range(clusters):
        words = [str(source.randrange(40)) for _ in range(source.randint(2, 6))]
        for _ in range(6):
            copy = list(words)
            for _ in range(source.randint(0, 2)):
                copy[source.randrange(len(copy))] = str(source.randrange(40))
            id = f"d{source.randrange(10**9):09}"
            texts[id] = " ".join(copy)
            names[id] = str(cluster)
    for number in range(8):
        texts[f"empty{number}"] = " !"
        names[f"empty{number}"] = str(number % 4)
    return LabelledCorpus(texts, names)


def chains() -> LabelledCorpus:
    """Returns clusters of seven versions, each with another fifth of the words of the first one.

    The last two versions of a text share a fifth of their words with the first, and half of all
    words are those of other texts.
    """
    source = random.Random(6)
    common = [make_word(source) for _ in range(60)]
    texts = {}
    names = {}
    for cluster in range(24):
        words = [*source.sample(common, 10), *(make_word(source) for _ in range(10))]
        for version in range(7):
            for place in source.sample(range(20), 4 if version else 0):
                words[place] = make_word(source)
            id = f"{source.randrange(10**6):06}"
            texts[id] = " ".join(words)
            names[id] = str(cluster)
    return LabelledCorpus(texts, names)


def test_chains_of_versions_are_joined_without_a_floor() -> None:
    corpus = chains()
    fitted = fit(corpus)
    assert fitted.settings["cluster"] == "components"
    assert fitted.settings["floor"] == 0
    assert fitted.held_out is not None
    assert fitted.held_out.f1.value > 0.95
    run = nk.dedup(corpus.table, id="id", settings=fitted.settings).clusters
    clusters = dict(zip(run["id"].to_pylist(), run["cluster"].to_pylist(), strict=True))
    scores = score_clusters(golden_set_from_clusters(corpus.clusters), clusters)
    assert scores.f1 == fitted.best.f1


def test_floor_is_kept_if_only_a_sample_is_compared() -> None:
    """Chains of a corpus are longer than those of its sample."""
    fitted = fit(chains(), sample=100)
    assert fitted.labels.compared_documents < fitted.labels.corpus_documents
    assert all("floor" not in choice.settings for choice in fitted.choices)


def test_the_three_choices_differ_in_unit_or_measure(fitted_records: nk.results.FitResult) -> None:
    families = [choice.definition.family for choice in fitted_records.choices]
    assert len(families) == len(set(families)) == 3
    scores = [choice.f1.value for choice in fitted_records.choices]
    assert scores == sorted(scores, reverse=True)


def test_equal_seeds_make_equal_choices(fitted_records: nk.results.FitResult) -> None:
    again = fit(records(SIZES), workers=1)
    assert again.to_dict() == fitted_records.to_dict()


def test_json_has_no_texts_and_no_ids(fitted_records: nk.results.FitResult) -> None:
    corpus = records(SIZES)
    text = str(fitted_records.to_dict())
    assert not [id for id in corpus.texts if repr(id) in text]
    assert not [
        word for text_of in corpus.texts.values() for word in [text_of[:20]] if word in text
    ]


def test_wrong_pairs_are_those_of_a_run() -> None:
    # No threshold separates them: the words of the last two clusters are those of the first two.
    texts = {"a": "one two three four", "b": "one two three four five", "c": "six seven eight nine"}
    texts |= {"d": "six seven eight ten", "e": "one two three four six", "f": "red green blue"}
    clusters = {"a": "1", "b": "1", "c": "2", "d": "2", "e": "3", "f": "4"}
    fitted = fit(LabelledCorpus(texts, clusters))
    table = nk.dedup(
        {"id": list(texts), "text": list(texts.values())}, id="id", settings=fitted.settings
    ).clusters
    run = dict(zip(table["id"].to_pylist(), table["cluster"].to_pylist(), strict=True))
    pairs = [(a, b) for a in texts for b in texts if a < b]
    wrong = {(a, b) for a, b in pairs if run[a] == run[b] and clusters[a] != clusters[b]}
    missed = {(a, b) for a, b in pairs if run[a] != run[b] and clusters[a] == clusters[b]}
    assert wrong | missed
    assert (fitted.false_count, fitted.missed_count) == (len(wrong), len(missed))
    for shown, expected in ((fitted.false_pairs, wrong), (fitted.missed_pairs, missed)):
        for pair in shown:
            assert tuple(sorted((pair.id_a, pair.id_b))) in expected
            assert (pair.text_a, pair.text_b) == (texts[pair.id_a], texts[pair.id_b])


def test_labelled_pairs_are_judged_one_by_one() -> None:
    corpus = records(SIZES)
    ids = sorted(corpus.texts)
    pairs = list(itertools.pairwise(ids)) + list(zip(ids, ids[7:], strict=False))
    labels = [corpus.clusters[a] == corpus.clusters[b] for a, b in pairs]
    fitted = nk.fit(corpus.table, golden_set_from_pairs(pairs, labels), id="id")
    assert fitted.labels.duplicates == sum(labels)
    assert fitted.labels.distinct == len(pairs) - sum(labels)
    assert fitted.best.f1.value > 0.97
    assert fitted.held_out is not None
    assert fitted.held_out.recall.value > 0.97
    # whether other pairs are found wrongly is not known from the labels
    assert fitted.held_out.precision.low < 0.9 < fitted.held_out.precision.high


def test_vectors_are_fitted_by_the_threshold_of_the_cosine() -> None:
    random = np.random.default_rng(3)
    centres = random.normal(size=(40, 16))
    vectors = np.repeat(centres, 2, axis=0) + 0.2 * random.normal(size=(80, 16))
    ids = [str(number) for number in range(80)]
    table = {"id": ids, "v": pa.array(vectors.tolist(), pa.list_(pa.float32()))}
    clusters = {id: str(int(id) // 2) for id in ids}
    fitted = nk.fit(pa.table(table), clusters, id="id", vector="v")
    assert fitted.settings["measure"] == "cosine"
    assert "shingle" not in fitted.settings
    assert fitted.best.f1.value > 0.98
    assert fitted.default is None
    assert nk.dedup(pa.table(table), id="id", vector="v", settings=fitted.settings).kept.sum() <= 42


def test_tokens_are_fitted_by_words_alone() -> None:
    corpus = copies([2] * 10 + [1] * 5)
    table = {"id": list(corpus.texts), "t": [text.split() for text in corpus.texts.values()]}
    fitted = nk.fit(pa.table(table), corpus.clusters, id="id", tokens="t")
    assert fitted.best.definition.unit == "words"
    assert fitted.best.f1.value == 1.0


def test_precision_objective_gives_the_largest_recall_under_it() -> None:
    corpus = bibliography(SIZES, seed=8)
    for text in list(corpus.texts):
        corpus.texts[text] = " ".join(corpus.texts[text].split()[:3])
    by_f1 = fit(corpus)
    precise = fit(corpus, objective="precision>=0.99")
    assert precise.is_met
    assert precise.best.precision.value >= 0.99
    assert precise.best.precision.value >= by_f1.best.precision.value
    complete = fit(corpus, objective="recall>=0.95")
    assert complete.best.recall.value >= 0.95
    assert complete.best.precision.value <= by_f1.best.precision.value + 0.02


def extended_texts() -> LabelledCorpus:
    """Returns texts in many copies, each beside a text that contains it and is another one."""
    source = random.Random(3)
    texts = {}
    names = {}
    for cluster in range(30):
        words = [make_word(source) for _ in range(40)]
        # The other texts are more similar to the copies than half of the copies are.
        added = [make_word(source) for _ in range(4 if cluster % 2 else 12)]
        for copy in range(8):
            changed = list(words)
            for place in source.sample(range(40), 1 if copy % 2 else 6):
                changed[place] = make_word(source)
            texts[f"{cluster}-{copy}"] = " ".join(changed)
            names[f"{cluster}-{copy}"] = str(cluster)
        texts[f"{cluster}-other"] = " ".join([*words, *added])
        names[f"{cluster}-other"] = f"other {cluster}"
    return LabelledCorpus(texts, names)


def test_few_clusters_are_lost_if_the_objective_says_so() -> None:
    corpus = extended_texts()
    by_f1 = fit(corpus)
    careful = fit(corpus, objective="lost<=0.01")
    assert careful.is_met
    kept = nk.dedup(corpus.table, id="id", settings=careful.settings).clusters
    left = {corpus.clusters[id] for id in kept["cluster"].to_pylist()}
    assert left == set(corpus.clusters.values())
    record = careful.to_dict()
    assert record["choices"][0]["lost"] == 0
    assert record["choices"][0]["removed"] > 0.3
    assert record["held_out"] is not None
    assert record["held_out"]["lost"] <= 0.05
    lost_by_f1 = by_f1.to_dict()["choices"][0]["lost"]
    assert lost_by_f1 > 0.1
    assert careful.best.threshold > by_f1.best.threshold


def test_lost_clusters_are_refused_for_labelled_pairs() -> None:
    corpus = records([2] * 6 + [1] * 4)
    pairs = [("0-0", "0-1"), ("1-0", "2-0")]
    golden = golden_set_from_pairs(pairs, [True, False])
    with pytest.raises(nk.UsageError, match=r"objective='lost<=0.01' needs labelled clusters"):
        nk.fit(corpus.table, golden, id="id", objective="lost<=0.01")


def test_objective_that_cannot_be_met_is_reported_with_the_nearest_score() -> None:
    texts = {"a": "one two three", "b": "one two three", "c": "one two three", "d": "four five"}
    texts |= {"e": "four five", "f": "six seven eight"}
    clusters = {"a": "1", "b": "1", "c": "2", "d": "3", "e": "3", "f": "4"}
    fitted = fit(LabelledCorpus(texts, clusters), objective="precision>=0.9")
    assert not fitted.is_met
    assert any("no settings reach precision>=0.9" in warning for warning in fitted.warnings)
    assert any("precision of 0.5" in warning for warning in fitted.warnings)


HUGE_CLUSTER_FIT = """
import resource, sys
import nearkin as nk
import numpy as np
from nearkin.quality.evaluate.golden import golden_set_from_clusters
from nearkin.quality.fit.sampling import sample_labels
documents, largest = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(1)
sizes = [largest] + [2] * ((documents - largest) // 2)
texts, clusters = {}, {}
for number, size in enumerate(sizes):
    words = [f"w{value}" for value in rng.integers(0, 50_000, 20)]
    for copy in range(size):
        words[copy % 20] = f"c{rng.integers(0, 50_000)}"
        texts[f"{number}-{copy}"] = " ".join(words)
        clusters[f"{number}-{copy}"] = str(number)
table = {"id": list(texts), "text": list(texts.values())}
golden = golden_set_from_clusters(clusters)
is_drawn = (seed for seed in range(1000) if sample_labels(golden, 4000, seed).capped_clusters)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fitted = nk.fit(table, golden, id="id", seed=next(is_drawn))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(fitted.labels.compared_documents, after - before, *fitted.warnings, sep="\\n")
"""


@pytest.mark.full
def test_memory_and_work_are_bounded_with_a_huge_cluster() -> None:
    """50,000 labelled documents, of which 20,000 are one cluster."""
    done = subprocess.run(
        [sys.executable, "-c", HUGE_CLUSTER_FIT, "50000", "20000"],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    compared, memory, *warnings = done.stdout.splitlines()
    # The work is that of all pairs of these documents, whatever the size of the corpus.
    assert int(compared) <= 5000
    assert int(memory) < 1_500_000, "kilobytes"
    assert "1 large clusters were represented by some of their documents" in warnings
