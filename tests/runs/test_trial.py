"""Trials of settings over the inputs, by which labelled pairs are judged."""

import random
import string
from collections.abc import Mapping

import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.engine.keywords import RunParameters
from nearkin.quality.evaluate.doubtful_removals import DoubtfulRemovals
from nearkin.quality.evaluate.golden import golden_set_from_pairs
from nearkin.quality.evaluate.pair_doubts import PairDoubts
from nearkin.quality.fit.fitting import FitRequest, fit_settings
from nearkin.quality.fit.objective import Objective
from nearkin.runs import trial
from nearkin.runs.temporary_runs import open_corpus
from nearkin.runs.trial import find_doubtful
from nearkin.runtime.progress import Silent
from nearkin.runtime.sizes import AUTOMATIC

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def _products() -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Returns products of several variants, some of which have a misspelled copy, and the pairs."""
    draw = random.Random(4)
    words = ["".join(draw.choices(string.ascii_lowercase, k=7)) for _ in range(200)]
    lines = [" ".join(draw.sample(words, 5)) for _ in range(120)]
    names = [f"{line} {' '.join(draw.sample(words, 2))}" for line in lines for _ in range(6)]
    copied = draw.sample(range(len(names)), 60)
    copies = [names[number].replace(" ", " x", 1) for number in copied]
    ids = [str(number) for number in range(len(names) + len(copies))]
    pairs = [(str(number), ids[len(names) + place]) for place, number in enumerate(copied)]
    return {"id": ids, "text": [*names, *copies]}, pairs


def test_labelled_pairs_are_bounded_by_what_is_removed_from_all_documents() -> None:
    table, copies = _products()
    # nobody labelled two products of one line, so that every threshold separates the labels
    distinct = [(str(number), str(number + 6)) for number in range(60)]
    answers = [True] * len(copies) + [False] * len(distinct)
    labels = golden_set_from_pairs([*copies, *distinct], answers)
    fitted = nk.fit(table, labels, id="id")
    result = nk.dedup(table, id="id", settings=fitted.settings, max_removed=1.0)
    assert 60 <= len(result.removed) <= 80
    assert fitted.best.removals is not None
    assert fitted.best.removals.share <= 0.1
    assert fitted.held_out is not None
    precision = fitted.held_out.precision
    # by the labels alone, at least 94 % of the pairs are right
    assert precision.low <= 60 / len(result.removed) <= precision.high
    assert precision.low < 0.94


def test_pairs_inside_of_large_clusters_count() -> None:
    """A removal of a large cluster brings more wrong pairs than one of a small cluster."""
    draw = random.Random(3)
    words = ["".join(draw.choices(string.ascii_lowercase, k=7)) for _ in range(400)]
    lines = [" ".join(draw.sample(words, 6)) for _ in range(60)]
    copies = [line.replace(" ", " x", 1) for line in lines]
    # forty products of one line, of which each has its own name
    products = [f"{' '.join(words[:5])} {' '.join(draw.sample(words, 2))}" for _ in range(40)]
    texts = [*lines, *copies, *products]
    table = pa.table({"id": list(map(str, range(len(texts)))), "text": texts})
    pairs = [(str(number), str(number + 60)) for number in range(60)]
    labels = golden_set_from_pairs(pairs, [True] * 60)
    settings: RunParameters = {"shingle": "words:1", "threshold": 0.45}
    found = find_doubtful(settings, table, 1, AUTOMATIC, labels)
    assert found is not None
    assert found.pairs is not None
    assert found.pairs.duplicates == 60
    assert found.pairs.doubtful_duplicates <= 3
    assert found.share < 0.5 < found.pairs.share
    assert found.pairs.expect_wrong().mean > 0.7


def test_columns_that_the_labels_choose_are_tried() -> None:
    table, copies = _products()
    ids = table["id"]
    columns = {"id": ids, "name": table["text"], "row": [f"row {id}" for id in ids]}
    distinct = [(str(number), str(number + 6)) for number in range(60)]
    answers = [True] * len(copies) + [False] * len(distinct)
    labels = golden_set_from_pairs([*copies, *distinct], answers)
    fitted = nk.fit(columns, labels, id="id", text=["name", "row"])
    assert fitted.best.removals is not None
    result = nk.dedup(columns, id="id", settings=fitted.settings, max_removed=1.0)
    assert fitted.best.removals.near == len(result.removed)


def test_masked_values_are_compared_in_a_trial() -> None:
    paid = ("cash", "card", "bank")
    texts = [f"order {row} of customer {7 * row} by {paid[row % 3]}" for row in range(100)]
    table = pa.table({"id": list(map(str, range(100))), "text": texts})
    settings: RunParameters = {
        "normalise": ["nfkc", "lower", "digits"],
        "shingle": "words:1",
        "threshold": 0.7,
    }
    doubtful = find_doubtful(settings, table, 1, AUTOMATIC)
    assert doubtful is not None
    assert doubtful.share == 1.0


def test_nothing_is_doubtful_if_nothing_is_removed() -> None:
    table = pa.table({"id": ["a", "b"], "text": ["one two three", "four five six"]})
    assert find_doubtful({"shingle": "words:1", "threshold": 0.8}, table, 1, AUTOMATIC) is None


def test_few_labelled_duplicates_are_drawn_beside_other_documents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "SAMPLED_DOCUMENTS", 20)
    monkeypatch.setattr(trial, "MOST_LABELLED", 5)
    ids = [f"{number:03d}" for number in range(200)]
    pairs = [(ids[number], ids[number + 50]) for number in range(50)]
    table = {"id": ids, "text": [f"the text {id} of words" for id in ids]}
    golden = golden_set_from_pairs(pairs, [True] * 50)
    columns = Columns(id="id")
    documents = trial.read_sample(open_corpus(table, {}), columns, None, Silent(), golden=golden)
    drawn = set(documents.ids)
    assert len(drawn) == 30
    assert sum(first in drawn and second in drawn for first, second in pairs) >= 5


def test_higher_of_two_equally_good_thresholds_is_taken() -> None:
    """Every threshold separates the labels, and all that is removed is doubtful."""
    lines = [f"a{number} b{number} c{number} d{number} e{number}" for number in range(40)]
    texts = [*lines, *(line.replace("e", "x") for line in lines)]
    ids = list(map(str, range(80)))
    pairs = [(ids[number], ids[number + 40]) for number in range(40)]
    distinct = [(ids[number], ids[number + 1]) for number in range(39)]
    golden = golden_set_from_pairs([*pairs, *distinct], [True] * 40 + [False] * 39)
    tried: list[float] = []

    def examine(settings: Mapping[str, object]) -> DoubtfulRemovals:
        tried.append(float(str(settings["threshold"])))
        doubts = PairDoubts(40, 40, 40, 20, 40, 40)
        return DoubtfulRemovals(40, 40, 40, {}, 0.9, 1.0, None, 0.0, (), doubts)

    corpus = open_corpus({"id": ids, "text": texts}, {})
    request = FitRequest(Objective.parse("f1"), workers=1)
    fitted = fit_settings(corpus, Columns(id="id"), golden, request, Silent(), examine)
    first = tried[0]
    assert fitted.best.threshold > first
    assert fitted.best.threshold in tried
    assert fitted.best.recall.value == 1.0
