"""Removals lose what is labelled as lost, and none under a safe condition."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import UsageError
from nearkin.quality.lab.loss_corpus import (
    ADDED_WORDS,
    HARMLESS,
    TEXT_LENGTHS,
    Change,
    LabelledDocument,
    LossKind,
    LossScore,
    make_loss_corpus,
    score_losses,
    write_loss_corpus,
)
from tests.stages.wording.oracle import says_all


def score_run(kind: LossKind, **options: Any) -> LossScore:
    corpus = make_loss_corpus(kind, 200, seed=3)
    table = {"id": [d.id for d in corpus], "text": [d.text for d in corpus]}
    clusters = nk.dedup(table, id="id", **options).clusters
    kept_of = dict(zip(clusters["id"].to_pylist(), clusters["cluster"].to_pylist(), strict=True))
    return score_losses(corpus, kept_of)


@pytest.mark.parametrize("kind", LossKind)
def test_accept_safe_loses_nothing_and_the_default_does(kind: LossKind) -> None:
    safe = score_run(kind, accept="safe")
    assert (safe.lost, safe.recall) == (0, 1.0)
    assert score_run(kind).lost >= 40


def test_changes_are_of_each_kind_and_length_and_their_truth_is_that_of_the_oracle() -> None:
    corpus = make_loss_corpus(LossKind.CHANGES, 2 * len(Change) * len(TEXT_LENGTHS))
    cases = [(document.words, document.change) for document in corpus[::2]]
    assert cases == [(words, str(change)) for words in TEXT_LENGTHS for change in Change]
    for first, second in zip(corpus[::2], corpus[1::2], strict=True):
        assert first.text != second.text
        assert len(first.text.split()) in (first.words, first.words + ADDED_WORDS)
        assert first.said_by == ((second.id,) if says_all(second.text, first.text) else ())
        assert second.said_by == ((first.id,) if says_all(first.text, second.text) else ())
        losing = [document for document in (first, second) if not document.said_by]
        harmless = (*HARMLESS, Change.LONGER_END, Change.ADDED_SENTENCE)
        assert (len(losing) == 2) == (first.change not in harmless)


@pytest.mark.parametrize("kind", [LossKind.FORMS, LossKind.ADDITIONS])
def test_documents_are_said_by_those_that_have_all_their_words_in_order(kind: LossKind) -> None:
    corpus = make_loss_corpus(kind, 20)
    words = {d.id: d.text.lower().replace(",", "").replace(".", "") for d in corpus}
    for document in corpus:
        others = [other for other in words if other != document.id]
        expected = [other for other in others if words[document.id] in words[other]]
        assert list(document.said_by) == expected


def test_losses_are_counted_by_the_document_that_is_kept() -> None:
    corpus = [
        LabelledDocument("a", "x", ("b", "c")),
        LabelledDocument("b", "X", ("a", "c")),
        LabelledDocument("c", "x y", ()),
        LabelledDocument("d", "z", ("e",)),
        LabelledDocument("e", "Z", ("d",)),
    ]
    kept_of = {"a": "c", "b": "c", "c": "c", "d": "d", "e": "c"}
    assert score_losses(corpus, kept_of) == LossScore(removed=3, lost=1, removable=3)


def test_a_corpus_is_written_with_its_truth(tmp_path: Path) -> None:
    out = tmp_path / "forms"
    assert run(["lab", "synth", "--losses", "forms", "--documents", "12", "--out", str(out)]) == 0
    truth = pq.read_table(out / "truth.parquet")
    documents = pq.read_table(out / "documents")
    corpus = make_loss_corpus(LossKind.FORMS, 12)
    assert truth["said_by"].to_pylist() == [list(document.said_by) for document in corpus]
    assert documents["text"].to_pylist() == [document.text for document in corpus]
    with pytest.raises(UsageError, match="exists; choose another folder"):
        write_loss_corpus(out, LossKind.FORMS, 12)
    write_loss_corpus(tmp_path / "changes", LossKind.CHANGES, 5)
    truth = pq.read_table(tmp_path / "changes" / "truth.parquet")
    changes = ["another name"] * 2 + ["another number"] * 2
    assert truth.select(["change", "words"]).to_pydict() == {"change": changes, "words": [60] * 4}


def test_unknown_kinds_and_too_few_documents_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert run(["lab", "synth", "--losses", "form", "--out", out]) == 2
    assert "did you mean 'forms'?" in capfd.readouterr().err
    with pytest.raises(UsageError, match="too few for a family of 5"):
        write_loss_corpus(out, LossKind.FORMS, 4)
