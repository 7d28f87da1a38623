import json
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.options import Settings
from nearkin.errors import UsageError
from nearkin.evaluate.explain import READ_FOR_EXAMPLES, SHOWN, VERDICTS, explain, shingles_of
from nearkin.keys import HashKey
from nearkin.sketch.resources import SpecResources
from nearkin.spec import Spec

BASE = " ".join(f"word{i}" for i in range(100))


def edited(edits: int) -> str:
    words = BASE.split()
    for i in range(edits):
        words[i * 97 % 100] = f"edit{i}"
    return " ".join(words)


def test_each_verdict() -> None:
    found = {
        "exact": explain(BASE, BASE.upper()),
        "match": explain(BASE, edited(2)),
        "empty": explain(BASE, "..."),
        "not a candidate": explain(BASE, edited(60)),
        "below the margin": explain(BASE, edited(13), settings=Settings(bands=64, rows=2)),
        "below the threshold": explain(BASE, edited(5)),
    }
    assert set(found) == set(VERDICTS)
    for verdict, one in found.items():
        assert one.verdict == verdict, one
        assert json.dumps(one.to_dict())


def test_numbers_of_a_pair() -> None:
    found = explain("the cat sat on the mat", "The cat sat on a mat", settings=Settings(spec=Spec(n=2), threshold=0.4))
    assert found.shingles.sizes == (5, 5)
    assert found.shingles.shared == 3
    assert found.shingles.jaccard == pytest.approx(3 / 7)
    assert found.similarity == pytest.approx(3 / 7)
    assert found.shingles.containment == (0.6, 0.6)
    assert found.shingles.examples == (("the cat", "cat sat", "sat on"), ("on the", "the mat"), ("on a", "a mat"))
    a, b = nk.sketch(["the cat sat on the mat", "The cat sat on a mat"], Spec(n=2))
    assert found.agreeing == int((a == b).sum())
    assert found.estimate == pytest.approx(nk.estimate(a, b))


@pytest.mark.parametrize("spec", [Spec(slot_bits=2), Spec(measure="simhash", k=128), Spec(measure="weighted-jaccard")])
def test_every_measure_of_text(spec: Spec) -> None:
    found = explain(BASE, edited(1), settings=Settings(spec=spec))
    assert found.similarity > 0.85
    assert found.verdict == "match"


def test_what_a_recall_lost_is_said() -> None:
    found = explain(BASE, edited(2), settings=Settings(bands=1, rows=100))
    assert found.verdict == "not a candidate"
    assert "ask for more --recall" in found.why
    with pytest.raises(UsageError, match="vectors have no words"):
        explain("a", "b", settings=Settings(spec=Spec(measure="cosine", unit="vector", n=2)))


def test_keyed() -> None:
    key, _ = HashKey.generate()
    settings = Settings(spec=Spec(base_hash="siphash", key_id=key.id))
    assert explain(BASE, edited(1), settings=settings, resources=SpecResources(key)).verdict == "match"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    rng = np.random.default_rng(1)
    texts = [BASE, edited(1), edited(3), edited(40), BASE.upper(), ""] + [
        " ".join(map(str, rng.integers(0, 9999, 50))) for _ in range(20)
    ]
    pq.write_table(pa.table({"id": [f"d{i}" for i in range(len(texts))], "text": texts}), folder / "docs.parquet")
    assert run(["dedup", str(folder / "docs.parquet"), "--id", "id", "--threshold", "0.7", "--out", str(folder / "out")]) == 0
    return folder


def test_documents_of_a_run(finished: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = str(finished / "out")
    for a, b, verdict, words in (
        ("d0", "d1", "match", "both are in the cluster"),
        ("d0", "d4", "exact", "both are in the cluster"),
        ("d0", "d3", "below the threshold", "the run compared every pair exactly"),
        ("d0", "d5", "empty", "match nothing"),
    ):
        assert run(["explain", a, b, "--run", out, "--json"]) == 0
        found = json.loads(capfd.readouterr().out)
        assert found["verdict"] == verdict
        assert words in found["why"]
        assert [row["id"] for row in found["run"]] == [a, b]
    assert run(["explain", "d0", "missing", "--run", out]) == 2
    assert "no document 'missing'" in capfd.readouterr().err
    assert run(["explain", "d0", "d1", "--run", str(finished)]) == 2


def test_terminal_and_page(finished: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "pair.html"
    (tmp_path / "a.txt").write_text("<b>the cat sat</b> on the mat")
    (tmp_path / "b.txt").write_text("<b>the cat sat</b> on the rug")
    asked = ["explain", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "--shingle", "words:1", "--threshold", "0.5"]
    assert run([*asked, "--html", str(page)]) == 0
    shown = capfd.readouterr().out
    assert "match: compared exactly" in shown
    assert "[-mat-]" in shown
    text = page.read_text("utf-8")
    assert "<del>mat</del>" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert run(["explain", "one two three", "one two four"]) == 0
    (tmp_path / "c.bin").write_bytes(b"\xff\xfe")
    assert run(["explain", str(tmp_path / "c.bin"), "x"]) == 2
    assert "is not UTF-8" in capfd.readouterr().err


def test_examples_hold_for_the_whole_texts() -> None:
    """They come from the beginnings of the texts, and say what is true of all of each text."""
    r = random.Random(1)
    far = " ".join(f"far{r.randrange(10**6)}" for _ in range(READ_FOR_EXAMPLES))
    found = shingles_of(f"one two three four {far}", f"{far} one two three five", Settings(), SpecResources())
    assert found.examples[0][0] == "one two three"
    assert found.examples[1][0] == "two three four"
    assert "one two three" not in found.examples[2]
    assert all(len(some) <= SHOWN for some in found.examples)


@pytest.mark.parametrize("shingle", ["words:3", "chars:5"])
def test_explaining_large_documents_takes_the_memory_of_their_hashes(shingle: str) -> None:
    """Python objects of every shingle would take hundreds of bytes for each character."""
    r = random.Random(2)
    texts = ["".join(r.choices("abcdefghijklmnopqrstuvwxyz" + " " * 13, k=1_000_000)) for _ in range(2)]
    settings = Settings(spec=Spec.for_shingle(shingle))
    tracemalloc.start()
    try:
        shingles_of(*texts, settings, SpecResources())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * sum(map(len, texts))
