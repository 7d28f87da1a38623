"""The function `nearkin.fit`: its labels, its warnings and its errors."""

from pathlib import Path

import pytest

import nearkin as nk
from nearkin.engine.settings_file import Settings
from nearkin.quality.evaluate.golden import golden_set_from_pairs
from nearkin.quality.fit import documents
from tests.quality.fit.corpora import records

CORPUS = records([2] * 6 + [1] * 4)


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def fitted() -> nk.results.FitResult:
    return nk.fit(CORPUS.table, CORPUS.clusters, id="id")


def test_written_settings_are_read_by_runs(fitted: nk.results.FitResult, tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    fitted.write(path)
    assert Settings.read(path).values == fitted.settings
    content = path.read_text()
    assert content.startswith("# Chosen by nearkin fit")
    assert "6 pairs of duplicates of 16 documents" in content
    assert "in cross-validation" in content
    assert nk.dedup(CORPUS.table, id="id", settings=path).kept.sum() == 10


def test_a_fit_without_labels_names_the_choice_without_them() -> None:
    with pytest.raises(nk.UsageError, match=r"nk\.choose\(data\)"):
        nk.fit(["a b c", "a b d"])


def test_few_labels_are_reported_with_the_interval(fitted: nk.results.FitResult) -> None:
    assert fitted.held_out is not None
    assert fitted.held_out.f1.low < 0.9
    (warning,) = [one for one in fitted.warnings if "groups" in one]
    assert warning.startswith("only 6 groups of documents have labelled duplicates")
    assert f"between {fitted.held_out.f1.low:.2f} and" in warning


def test_labels_are_read_from_a_file_or_a_golden_set(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    rows = [f"{id},{name}" for id, name in CORPUS.clusters.items()]
    path.write_text("\n".join(["id,cluster", *rows]))
    from_file = nk.fit(CORPUS.table, path, id="id")
    from_mapping = nk.fit(CORPUS.table, CORPUS.clusters, id="id")
    assert from_file.to_dict() == from_mapping.to_dict()


def test_labelled_documents_that_are_missing_are_counted() -> None:
    labels = {**CORPUS.clusters, "absent": "0"}
    fitted = nk.fit(CORPUS.table, labels, id="id")
    assert fitted.labels.missing == 1
    assert any("1 labelled document is not in the inputs" in one for one in fitted.warnings)


def test_labels_of_other_documents_are_refused() -> None:
    labels = {f"x{id}": name for id, name in CORPUS.clusters.items()}
    with pytest.raises(nk.UsageError, match="16 of 16 labelled documents are not in the inputs"):
        nk.fit(CORPUS.table, labels, id="id")


def test_labels_whose_ids_a_spreadsheet_changed_are_refused() -> None:
    ids = [f"00{number}" for number in range(len(CORPUS.clusters))]
    labels = {id.lstrip("0"): name for id, name in zip(ids, CORPUS.clusters.values(), strict=True)}
    with pytest.raises(nk.UsageError, match=r"'1' \(the inputs have '001'\).*; a spreadsheet"):
        nk.fit({**CORPUS.table, "id": ids}, labels, id="id")


def test_labels_of_a_larger_collection_are_refused_with_what_to_do() -> None:
    labels = {f"x{number}": str(number // 2) for number in range(1000)} | CORPUS.clusters
    with pytest.raises(nk.UsageError) as caught:
        nk.fit(CORPUS.table, labels, id="id")
    message = str(caught.value)
    assert f"the labels name {len(labels):,} documents, and the inputs have 16" in message
    assert (
        "pass all files to which the labels belong, or a file with the labels of these" in message
    )


def test_repeated_ids_of_labelled_documents_are_refused() -> None:
    table = {"id": ["a", "a", "b"], "text": ["x", "y", "z"]}
    with pytest.raises(nk.UsageError, match="2 documents with the id 'a'"):
        nk.fit(table, {"a": "1", "b": "1", "c": "2"}, id="id")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"a": "1", "b": "2"}, "each of the 2 labelled documents is a cluster of its own"),
        ({"a": "1", "b": "1"}, "all 2 labelled documents are in one cluster"),
        (golden_set_from_pairs([("a", "b")], [True]), "all 1 labelled pairs are duplicates"),
        (golden_set_from_pairs([("a", "b")], [False]), "all 1 labelled pairs are distinct"),
        (golden_set_from_pairs([("a", "b")], [True], closure=True), "without closure"),
    ],
)
def test_labels_of_one_kind_are_refused(
    labels: dict[str, str] | nk.results.GoldenSet, message: str
) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.fit({"id": ["a", "b"], "text": ["x", "y"]}, labels, id="id")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "f2"}, "objective='f2' is not valid"),
        ({"labelled": "pairs"}, "labelled='pairs' is not one of"),
        ({"sample": 1}, "sample=1 is out of range; it must be at least 2"),
        ({"seed": -1}, "seed=-1 is not an unsigned 64-bit number"),
        ({"text": "body"}, "no column 'body'"),
        ({"workers": 0}, "workers=0 is out of range; it must be at least 1"),
    ],
)
def test_invalid_parameters_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.fit(CORPUS.table, CORPUS.clusters, id="id", **options)  # type: ignore[arg-type]


def test_empty_inputs_are_refused() -> None:
    with pytest.raises(nk.UsageError, match="the inputs have no documents"):
        nk.fit({"id": [], "text": []}, CORPUS.clusters, id="id")


def test_one_group_of_duplicates_cannot_be_held_out() -> None:
    labels = {id: name for id, name in CORPUS.clusters.items() if int(name) in (0, 7, 8)}
    fitted = nk.fit(CORPUS.table, labels, id="id")
    assert fitted.held_out is None
    assert any("nothing could be held out" in one for one in fitted.warnings)


def test_documents_without_labels_do_not_count_if_single_documents_were_labelled() -> None:
    texts = {**CORPUS.texts, **{f"x{id}": text for id, text in CORPUS.texts.items()}}
    table = {"id": list(texts), "text": list(texts.values())}
    single = nk.fit(table, CORPUS.clusters, id="id", labelled="documents")
    assert single.labels.documents == len(CORPUS.texts)
    assert single.labels.compared_documents == len(texts)
    assert single.best.precision.value == 1.0
    # Every labelled document has an exact copy without a label, which is distinct if the labelled
    # clusters are whole.
    whole = nk.fit(table, CORPUS.clusters, id="id")
    assert whole.labels.compared_documents == len(texts)
    assert whole.best.precision.value < 0.7


def test_minimum_that_does_not_hold_on_held_out_labels_is_reported() -> None:
    texts = {f"{c}-{i}": f"w{c} w{c + i}" for c in range(12) for i in range(3)}
    labels = {id: id.partition("-")[0] for id in texts}
    fitted = nk.fit(
        {"id": list(texts), "text": list(texts.values())},
        labels,
        id="id",
        objective="precision>=0.95",
    )
    assert fitted.held_out is not None
    assert fitted.is_met
    assert fitted.best.precision.value == 1.0
    assert fitted.held_out.precision.value < 0.95
    assert any("in cross-validation; ask for a higher" in one for one in fitted.warnings)


def test_labels_that_become_one_kind_without_missing_documents_are_refused() -> None:
    table = {"id": ["a", "b", "c"], "text": ["x y", "x z", "u v"]}
    pairs = golden_set_from_pairs([("a", "b"), ("a", "absent")], [True, False])
    with pytest.raises(nk.UsageError, match="no distinct pair is labelled among the documents"):
        nk.fit(table, pairs, id="id")
    pairs = golden_set_from_pairs([("a", "b"), ("a", "absent")], [False, True])
    with pytest.raises(
        nk.UsageError, match="no pair of duplicates is labelled among the documents"
    ):
        nk.fit(table, pairs, id="id")
    with pytest.raises(nk.UsageError, match="no distinct pair is labelled among the documents"):
        nk.fit({"id": ["a", "b"], "text": ["x", "y"]}, {"a": "1", "b": "1", "c": "2"}, id="id")


def test_labelled_documents_that_do_not_fit_memory_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = CORPUS.table["text"]
    total = sum(map(len, texts))
    monkeypatch.setattr(documents, "COMPARED_BYTES", total * 3 // 4)
    fitted = nk.fit(CORPUS.table, CORPUS.clusters, id="id")
    assert 0 < fitted.labels.left_out < 16
    assert fitted.labels.documents + fitted.labels.left_out == 16
    assert fitted.labels.missing == 0
    message = f"{fitted.labels.left_out} labelled documents were left out because their texts"
    assert any(one.startswith(message) for one in fitted.warnings)


def test_labelled_documents_of_which_none_fit_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(documents, "COMPARED_BYTES", 100)
    with pytest.raises(nk.UsageError, match=r"1\d labelled documents were left out because"):
        nk.fit(CORPUS.table, CORPUS.clusters, id="id")


def test_labelled_clusters_are_not_tried_over_the_inputs(fitted: nk.results.FitResult) -> None:
    assert fitted.best.removals is None
