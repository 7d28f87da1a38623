"""Columns and acceptances are chosen where they are better by more than noise."""

import random
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.quality.evaluate.golden import golden_set_from_clusters, score_clusters
from nearkin.quality.evaluate.intervals import Estimate
from nearkin.quality.fit.definition import Definition
from nearkin.quality.fit.objective import Objective
from nearkin.quality.fit.validation import FoldChoice, HeldOut
from tests.quality.fit.corpora import (
    LabelledCorpus,
    extended_texts,
    filled_forms,
    make_word,
    make_words,
    misspell,
    records,
)


def score_run(table: object, corpus: LabelledCorpus, settings: object) -> float:
    clusters = nk.dedup(table, id="id", settings=settings).clusters  # type: ignore[arg-type]
    ids = clusters["id"].to_pylist()
    predicted = dict(zip(ids, clusters["cluster"].to_pylist(), strict=True))
    f1 = score_clusters(golden_set_from_clusters(corpus.clusters), predicted).f1
    assert f1 is not None
    return f1.value


@pytest.mark.parametrize(
    ("corpus", "condition"),
    [(extended_texts(10), "containment >= "), (filled_forms(16), "numbers_equal")],
    ids=["texts with long additions", "forms"],
)
def test_an_acceptance_is_chosen_where_it_is_right(
    corpus: LabelledCorpus, condition: str, tmp_path: Path
) -> None:
    fitted = nk.fit(corpus.table, corpus.clusters, id="id")
    assert condition in str(fitted.settings["accept"])
    assert "threshold" not in fitted.settings
    assert fitted.best.f1.value > 0.97
    assert fitted.held_out is not None
    assert fitted.held_out.f1.value > 0.9
    fitted.write(tmp_path / "settings.toml")
    assert score_run(corpus.table, corpus, tmp_path / "settings.toml") == fitted.best.f1.value


def test_an_acceptance_is_not_chosen_where_a_threshold_is_as_good() -> None:
    corpus = records([2] * 12 + [1] * 6, seed=2)
    fitted = nk.fit(corpus.table, corpus.clusters, id="id")
    assert "accept" not in fitted.settings


def test_labelled_pairs_choose_acceptances_as_well(tmp_path: Path) -> None:
    corpus = filled_forms(16)
    lines = ["id_a,id_b,label"]
    for family in range(16):
        for other in (1, 2, 3):
            lines.append(f"{family}-0,{family}-{other},{int(other == 1)}")
        lines.append(f"{family}-2,{family}-3,1")
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(lines))
    fitted = nk.fit(corpus.table, path, id="id")
    assert "numbers_equal" in str(fitted.settings["accept"])
    assert fitted.best.f1.value == 1.0


def people(count: int) -> tuple[dict[str, list[str]], LabelledCorpus]:
    """Returns records of which one column tells people apart, and others mislead."""
    source = random.Random(7)
    rows: list[tuple[str, str, str, str]] = []
    clusters: dict[str, str] = {}
    addresses = [make_words(source, 4) for _ in range(5)]
    for person in range(count):
        name = make_words(source, 2)
        for copy in range(2):
            id = f"{person}-{copy}"
            rows.append((id, misspell(name, source), source.choice(addresses), make_word(source)))
            clusters[id] = str(person)
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = dict(zip(("id", "name", "address", "note"), columns, strict=True))
    return table, LabelledCorpus({row[0]: " ".join(row[1:]) for row in rows}, clusters)


def test_columns_are_chosen_that_tell_documents_apart(tmp_path: Path) -> None:
    table, corpus = people(30)
    columns = ["name", "address", "note"]
    fitted = nk.fit(table, corpus.clusters, id="id", text=columns)
    assert fitted.settings["text"] == ["name"]
    assert fitted.held_out is not None
    assert fitted.held_out.f1.value > 0.95
    fitted.write(tmp_path / "settings.toml")
    assert score_run(table, corpus, tmp_path / "settings.toml") == fitted.best.f1.value
    again = nk.fit(table, corpus.clusters, id="id", text=columns)
    assert again.to_dict() == fitted.to_dict()


def test_all_columns_are_kept_if_none_misleads() -> None:
    table, corpus = people(12)
    table["address"] = table["name"]
    columns = ["name", "address"]
    fitted = nk.fit(table, corpus.clusters, id="id", text=columns)
    assert fitted.settings["text"] == columns


def test_columns_that_a_document_lacks_are_not_chosen_in_a_small_corpus() -> None:
    """A run would reject the document."""
    table, corpus = people(30)
    names: list[str | None] = [None, *table["name"][1:]]
    columns = ["name", "address", "note"]
    fitted = nk.fit({**table, "name": names}, corpus.clusters, id="id", text=columns)
    chosen = fitted.settings["text"]
    assert isinstance(chosen, list)
    assert len(chosen) > 1


def held_out(*scores: float) -> HeldOut:
    definition = Definition("words", 1, "jaccard")
    folds = tuple(FoldChoice(definition, 0.5, 10, each, score=each, limited=1.0) for each in scores)
    mean = Estimate(sum(scores) / len(scores), 0.0, 1.0)
    return HeldOut(mean, mean, mean, folds)


def test_gains_within_the_noise_of_the_folds_do_not_count() -> None:
    objective = Objective.parse("f1")
    before = held_out(0.8, 0.8, 0.8, 0.8, 0.8)
    assert held_out(0.83, 0.82, 0.84, 0.8, 0.81).exceeds(before, objective)
    assert not held_out(0.95, 0.8, 0.75, 0.8, 0.75).exceeds(before, objective)
    assert not before.exceeds(before, objective)
    assert not held_out(0.9, 0.9).exceeds(held_out(0.5, 0.5), objective)


def test_a_minimum_that_is_met_is_not_given_up_for_a_better_score() -> None:
    objective = Objective.parse("precision>=0.9")
    careful = held_out(0.95, 0.95, 0.95)
    assert not held_out(0.8, 0.8, 0.8).exceeds(careful, objective)
