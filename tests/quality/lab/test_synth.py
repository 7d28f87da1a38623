"""Tests of synthetic corpora and their truth."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from nearkin.errors import UsageError
from nearkin.quality.lab import kernels
from nearkin.quality.lab.synth import HOSTILE_TEXTS, SynthSettings, Vocabulary, synth

SETTINGS = SynthSettings(
    documents=3000,
    length="uniform:200:800",
    hot_clusters=1,
    hot_size=100,
    boilerplate=0.2,
    hostile=24,
    seed=5,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("synth") / "s"
    synth(folder, SETTINGS)
    return folder


def test_documents_have_the_requested_fields(made: Path) -> None:
    table = pq.read_table(made / "documents")
    assert table["id"].to_pylist() == [f"d{i:010d}" for i in range(3000)]
    texts = table["text"].to_pylist()
    assert Counter(texts)[None] == 2
    assert {text for text in HOSTILE_TEXTS if text} <= set(texts)
    assert 400 < np.median([len(text) for text in texts if text]) < 650
    assert set(table["source"].to_pylist()) == {"web", "news", "books", "gold"}


def test_planted_similarities_are_exact(made: Path) -> None:
    table = pq.read_table(made / "documents")
    texts = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))

    def shingles(name: str) -> set[tuple[str, ...]]:
        words = (texts[name] or "").replace(".", " ").split()
        return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))}

    truth = pq.read_table(made / "truth.parquet").to_pylist()
    assert len(truth) > 400
    for row in truth:
        a, b = shingles(row["id_a"]), shingles(row["id_b"])
        assert row["similarity"] == len(a & b) / len(a | b)
        assert row["id_a"] < row["id_b"]
    similarities = np.array([row["similarity"] for row in truth])
    assert np.quantile(similarities, 0.02) > 0.5
    assert (similarities == 1).any()


def test_permutation_visits_every_document_once(made: Path) -> None:
    out = np.empty(3000, np.int64)
    kernels.permute_all(0, np.uint64(3000), np.uint64(6), np.uint64(5), out)
    assert sorted(out.tolist()) == list(range(3000))
    truth = pq.read_table(made / "truth.parquet").to_pylist()
    hot = {name for row in truth if row["cluster"] == 0 for name in (row["id_a"], row["id_b"])}
    assert len(hot) == 100


def test_files_workers_and_format_do_not_change_the_documents(made: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    synth(tmp_path / "parts", replace(SETTINGS, files=3), workers=1)
    assert pq.read_table(tmp_path / "parts/documents").equals(pq.read_table(made / "documents"))
    assert (tmp_path / "parts/truth.parquet").read_bytes() == (made / "truth.parquet").read_bytes()
    synth(tmp_path / "lines", replace(SETTINGS, format="jsonl"))
    lines = (tmp_path / "lines/documents/part-00000.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == pq.read_table(made / "documents").to_pylist()


def test_settings_are_written_to_the_output(made: Path) -> None:
    facts = json.loads((made / "synth.json").read_bytes())
    assert facts["documents"] == 3000
    assert facts["planted_pairs"] == pq.read_table(made / "truth.parquet").num_rows


def test_vocabulary_is_taken_from_a_text(tmp_path: Path) -> None:
    synth(
        tmp_path / "s",
        SynthSettings(documents=50, clustered=0.0, operations={"substitute": 1.0}),
        vocabulary="Ünï zwei zwei zwei drei",
    )
    words = Counter(
        " ".join(pq.read_table(tmp_path / "s/documents")["text"].to_pylist())
        .replace(".", " ")
        .split()
    )
    assert set(words) == {"ünï", "zwei", "drei"}
    assert words["zwei"] > 2 * words["drei"]
    with pytest.raises(UsageError, match="contains no word"):
        Vocabulary.from_text("...")


@pytest.mark.parametrize("operation", ["substitute", "delete", "insert", "swap", "typo"])
def test_each_edit_operation_alone_reaches_the_similarity_range(
    operation: str, tmp_path: Path
) -> None:
    synth(
        tmp_path / "s",
        SynthSettings(
            documents=2000,
            length="fixed:1000",
            clustered=1.0,
            copies=1.0,
            exact=0.0,
            similarity=(0.7, 0.7),
            operations={operation: 1.0},
        ),
    )
    similarities = pq.read_table(tmp_path / "s/truth.parquet")["similarity"].to_numpy()
    assert 0.62 < np.median(similarities) < 0.8


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clustered": 1.5}, "clustered=1.5 is out of range; it must be from 0 to 1"),
        ({"similarity": (0.9, 0.5)}, "is not a range"),
        ({"documents": 10, "hostile": 20}, "fewer than those of hostile"),
        ({"operations": {"paint": 1.0}}, "operation 'paint'"),
        ({"operations": {"typo": 0.0}}, "the weights of operations"),
        ({"format": "xml"}, "format='xml' is not one of"),
        ({"length": "fixed:x"}, "length 'fixed:x'"),
        ({"length": "fixed:0"}, "length 'fixed:0' is out of range"),
        ({"length": "uniform:-5:500"}, "length 'uniform:-5:500' is out of range"),
        ({"length": "lognormal:nan:1"}, "length 'lognormal:nan:1' is out of range"),
        ({"length": "lognormal:1500:1e9"}, "length 'lognormal:1500:1e9' is out of range"),
    ],
)
def test_invalid_settings_are_rejected(wrong: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SynthSettings(**wrong)


def test_existing_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists; choose another folder"):
        synth(tmp_path)


def test_zero_documents_are_generated(tmp_path: Path) -> None:
    assert synth(tmp_path / "s", SynthSettings(documents=0))["planted_pairs"] == 0
