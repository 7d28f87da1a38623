"""Tests of explanations of texts and of documents of a run."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.quality.evaluate.explain import explain
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of
from nearkin.stages.measures.explanation import PairVerdict
from nearkin.stages.sketch.resources import SpecResources

BASE = " ".join(f"word{i}" for i in range(100))


def edited(edits: int) -> str:
    words = BASE.split()
    for i in range(edits):
        words[i * 97 % 100] = f"edit{i}"
    return " ".join(words)


def test_each_verdict_is_reached() -> None:
    explanations = {
        "exact": explain(BASE, BASE.upper()),
        "match": explain(BASE, edited(2)),
        "empty": explain(BASE, " \n"),
        "not a candidate": explain(BASE, edited(60)),
        "below the margin": explain(BASE, edited(13), settings=RunOptions(bands=64, rows=2)),
        "below the threshold": explain(BASE, edited(5)),
    }
    # pairs of one source or of different blocks are in tests/engine/test_across.py, and pairs under
    # a condition in test_explain_acceptance.py
    of_runs = {PairVerdict.NOT_COMPARED, PairVerdict.NOT_ACCEPTED}
    assert set(explanations) == set(PairVerdict) - of_runs
    for verdict, explanation in explanations.items():
        assert explanation.verdict == verdict, explanation
        assert json.dumps(explanation.to_dict())


def test_match_with_the_same_shingles_names_what_differs() -> None:
    differs = "only symbols, punctuation, order or repetitions differ"
    texts = ("we learn C++ in ten days", "we learn C# in ten days")
    same = explain(*texts)
    assert (same.verdict, same.similarity) == (PairVerdict.MATCH, 1)
    assert same.why.endswith(differs)
    steps = Spec(normalise=("nfkc", "lower", "symbols"))
    assert explain(*texts, settings=RunOptions(spec=steps)).similarity < 1
    assert explain("\U0001f600", "\U0001f600\n").verdict == PairVerdict.EXACT
    assert explain("\U0001f600", "\U0001f621").similarity == 0
    assert differs not in explain(BASE, edited(2)).why


def test_figures_follow_from_the_shingles() -> None:
    explanation = explain(
        "the cat sat on the mat",
        "The cat sat on a mat",
        settings=RunOptions(spec=Spec(n=2), threshold=0.4),
    )
    assert explanation.shingles.sizes == (5, 5)
    assert explanation.shingles.shared == 3
    assert explanation.shingles.jaccard == pytest.approx(3 / 7)
    assert explanation.similarity == pytest.approx(3 / 7)
    assert explanation.shingles.containment == (0.6, 0.6)
    assert explanation.shingles.examples == (
        ("the cat", "cat sat", "sat on"),
        ("on the", "the mat"),
        ("on a", "a mat"),
    )
    a, b = nk.sketch(["the cat sat on the mat", "The cat sat on a mat"], Spec(n=2))
    assert explanation.agreeing == int((a == b).sum())
    assert explanation.estimate == pytest.approx(nk.estimate(a, b))


@pytest.mark.parametrize(
    "spec", [Spec(slot_bits=2), Spec(measure="simhash", k=128), Spec(measure="weighted-jaccard")]
)
def test_every_measure_of_texts_is_explained(spec: Spec) -> None:
    explanation = explain(BASE, edited(1), settings=RunOptions(spec=spec))
    assert explanation.similarity > 0.85
    assert explanation.verdict == "match"


def test_missed_near_duplicate_is_named_as_missed() -> None:
    explanation = explain(BASE, edited(2), settings=RunOptions(bands=1, rows=100))
    assert explanation.verdict == "not a candidate"
    assert "a near-duplicate that was missed" in explanation.why


def test_vectors_are_not_explained() -> None:
    with pytest.raises(UsageError, match="vectors have no words"):
        explain("a", "b", settings=RunOptions(spec=Spec(measure="cosine", unit="vector", n=2)))


def test_keyed_spec_is_explained() -> None:
    key, _ = HashKey.generate()
    settings = RunOptions(spec=Spec(base_hash="siphash", key_id=key.id))
    assert (
        explain(BASE, edited(1), settings=settings, resources=SpecResources(key)).verdict == "match"
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    rng = np.random.default_rng(1)
    texts = [BASE, edited(1), edited(3), edited(40), BASE.upper(), ""] + [
        " ".join(map(str, rng.integers(0, 9999, 50))) for _ in range(20)
    ]
    pq.write_table(
        pa.table({"id": [f"d{i}" for i in range(len(texts))], "text": texts}),
        folder / "docs.parquet",
    )
    assert (
        run(
            [
                "dedup",
                str(folder / "docs.parquet"),
                "--id",
                "id",
                "--threshold",
                "0.7",
                "--out",
                str(folder / "out"),
            ]
        )
        == 0
    )
    return folder


def test_documents_of_a_run_are_explained(
    finished: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = str(finished / "out")
    for a, b, verdict, words in (
        ("d0", "d1", "match", "both are in the cluster"),
        ("d0", "d4", "exact", "both are in the cluster"),
        ("d0", "d3", "below the threshold", "the run compared every pair exactly"),
        ("d0", "d5", "empty", "match nothing"),
    ):
        assert run(["explain", a, b, "--run", out, "--json"]) == 0
        output = json.loads(capfd.readouterr().out)
        assert output["verdict"] == verdict
        assert words in output["why"]
        assert [row["id"] for row in output["run"]] == [a, b]
    assert run(["explain", "d0", "missing", "--run", out]) == 2
    assert "no document 'missing'" in capfd.readouterr().err
    assert run(["explain", "d0", "d1", "--run", str(finished)]) == 2
    report = finished / "out" / "report.html"
    before = report.read_bytes()
    assert run(["explain", "d0", "d1", "--run", out, "--html", str(report)]) == 2
    assert "which is the result of a run; choose another --html" in capfd.readouterr().err
    assert report.read_bytes() == before


def test_words_that_a_run_lost_are_marked_as_lost(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.csv"
    words = " ".join(f"word{number}" for number in range(40))
    texts.write_text(f"id,text\nkept,{words} remains here\nlost,{words} ends\nother,{words[9:]}\n")
    out = str(tmp_path / "out")
    assert run(["dedup", str(texts), "--id", "id", "--out", out, "--quiet"]) == 0
    page = tmp_path / "pair.html"
    for ids in (["kept", "lost"], ["lost", "kept"]):
        capfd.readouterr()
        assert run(["explain", *ids, "--run", out, "--html", str(page)]) == 0
        shown = capfd.readouterr().out
        assert "[-ends-]" in shown
        assert "{+remains here+}" in shown
        assert ", kept by the run" in shown
        assert "<del>ends</del>" in page.read_text("utf-8")
        assert "<ins>remains here</ins>" in page.read_text("utf-8")
    # both were removed: neither is lost beside the other
    assert run(["explain", "lost", "other", "--run", out]) == 0
    shown = capfd.readouterr().out
    assert "«ends»" in shown
    assert "[-" not in shown


def test_terminal_and_page_mark_the_differences(
    finished: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "pair.html"
    (tmp_path / "a.txt").write_text("<b>the cat sat</b> on the mat")
    (tmp_path / "b.txt").write_text("<b>the cat sat</b> on the rug")
    arguments = [
        "explain",
        str(tmp_path / "a.txt"),
        str(tmp_path / "b.txt"),
        "--shingle",
        "words:1",
        "--threshold",
        "0.5",
    ]
    assert run([*arguments, "--html", str(page)]) == 0
    shown = capfd.readouterr().out
    assert "match: the exact similarity" in shown
    assert "«mat»" in shown
    assert "«rug»" in shown
    text = page.read_text("utf-8")
    assert "<mark>mat</mark>" in text
    assert "<del>" not in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert run(["explain", "one two three", "one two four"]) == 0
    (tmp_path / "c.bin").write_bytes(b"\xff\xfe")
    assert run(["explain", str(tmp_path / "c.bin"), "x"]) == 2
    assert "is not UTF-8" in capfd.readouterr().err


def test_pair_is_explained_if_no_bands_reach_the_recall() -> None:
    """No bands of 64 signs reach the recall at cosine 0.2, so a run compares all pairs."""
    options = RunOptions(spec=Spec(measure="simhash"), threshold=0.2)
    with pytest.raises(UsageError, match="cannot be reached"):
        options.banding(measure_of(options.spec), 6000)
    similar = explain(BASE, edited(15), settings=options, documents=6000)
    assert similar.verdict == PairVerdict.MATCH
    different = explain(BASE, "entirely other words", settings=options, documents=6000)
    assert different.verdict == PairVerdict.BELOW_THRESHOLD
    assert "so a run compares every pair" in different.why
    assert explain(BASE, BASE, settings=options, documents=6000).verdict == PairVerdict.EXACT


def test_run_that_compared_all_pairs_of_signs_is_explained_and_audited(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(4)
    words = rng.integers(0, 400, (6000, 6))
    texts = [" ".join(f"w{number}" for number in row) for row in words.tolist()]
    ids = [f"d{number:04}" for number in range(len(texts))]
    pq.write_table(pa.table({"id": ids, "text": texts}), tmp_path / "docs.parquet")
    out = str(tmp_path / "out")
    line = ["dedup", str(tmp_path / "docs.parquet"), "--id", "id", "--measure", "simhash"]
    line += ["--shingle", "words:1", "--threshold", "0.2", "--max-removed", "1"]
    assert run([*line, "--out", out, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["stages"]["verify"]["brute_force"]
    assert run(["explain", "d0001", "d0002", "--run", out, "--json"]) == 0
    explained = json.loads(capfd.readouterr().out)
    assert explained["verdict"] in ("match", "below the threshold")
    assert run(["audit", out, "--sample", "3", "--removed", "3", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["recall"]["value"] == 1.0


def test_damaged_signatures_hinder_neither_explanation_nor_audit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["one two three four five six", "one two three four five six seven", "a b c d e f"]
    rows = [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out"
    flags = ["--id", "id", "--save-signatures", "--threshold", "0.5", "--quiet"]
    assert run(["dedup", str(path), *flags, "--out", str(out)]) == 0
    (out / "signatures" / "signatures").write_bytes(b"damaged")
    assert run(["explain", "d0", "d1", "--run", str(out)]) == 0
    assert run(["audit", str(out)]) == 0
    assert run(["shadow", str(out), "--against", "threshold=0.6"]) == 2
    assert "7 bytes instead of" in capsys.readouterr().err
    assert run(["dedup", str(out), "--threshold", "0.6", "--out", str(tmp_path / "b")]) == 2
