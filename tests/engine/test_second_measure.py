import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import UsageError


def table_of(seed: int, documents: int = 200) -> pa.Table:
    """Texts with copies near by words, and vectors near each other across texts.

    Some rows have no vector.
    """
    rng = np.random.default_rng(seed)
    texts = [" ".join(f"w{x}" for x in rng.integers(0, 3000, 60)) for _ in range(documents)]
    vectors = rng.normal(size=(documents, 12))
    for i in range(0, documents, 4):
        # Near by words to i; its vector goes with that of another text, or nowhere.
        words = texts[i].split()
        words[3] = f"edit{i}"
        texts.append(" ".join(words) if i % 8 else texts[i])
        vectors = np.vstack(
            [vectors, vectors[(i + 2) % documents] + rng.normal(scale=0.01, size=12)]
        )
    for i in range(0, documents, 5):
        vectors[i] = vectors[(i * 7 + 3) % documents] + rng.normal(scale=0.02, size=12)
    rows = [None if i % 37 == 5 else list(map(float, v)) for i, v in enumerate(vectors)]
    order = rng.permutation(len(texts)).tolist()
    return pa.table(
        {
            "id": [f"d{i:04}" for i in range(len(texts))],
            "text": [texts[i] for i in order],
            "v": pa.array([rows[i] for i in order], pa.list_(pa.float32())),
        }
    )


def jaccard(a: str, b: str) -> float:
    x, y = ({tuple(t.split()[i : i + 3]) for i in range(len(t.split()) - 2)} for t in (a, b))
    return len(x & y) / len(x | y)


def cosine(a: list[float] | None, b: list[float] | None) -> float:
    if a is None or b is None:
        return -1.0
    x, y = np.array(a), np.array(b)
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


@pytest.mark.parametrize("seed", range(6))
def test_everything_is_removed_for_a_kept_one_that_resembles_it(seed: int) -> None:
    table = table_of(seed)
    result = nk.dedup(table, id="id", threshold=0.7, second_measure="cosine:v:0.97")
    rows = {row["id"]: row for row in table.to_pylist()}
    clusters = {row["id"]: row for row in result.clusters.arrow.to_pylist()}
    assert {kind for row in clusters.values() for kind in [row["kind"]]} >= {
        "kept",
        "unique",
        "near",
        "vector",
        "exact",
    }
    heads = {row["cluster"] for row in clusters.values() if not row["kept"]}
    for id, row in clusters.items():
        head = row["cluster"]
        assert clusters[head]["kept"]
        assert row["kept"] == (head == id)
        if row["kind"] == "vector":
            assert row["similarity"] >= 0.97
            assert row["similarity"] == pytest.approx(
                cosine(rows[id]["v"], rows[head]["v"]), abs=1e-6
            )
        elif row["kind"] in ("near", "exact"):
            assert row["similarity"] == pytest.approx(jaccard(rows[id]["text"], rows[head]["text"]))
            assert row["similarity"] >= 0.7
        else:
            assert row["kind"] == ("kept" if id in heads else "unique")
    counts = result.statistics
    assert counts["kept"] + counts["removed"] == len(table)
    assert (
        counts["removed"]
        == counts["removed_exact"] + counts["removed_near"] + counts["removed_vector"]
    )
    # No two kept documents that both measures saw resemble each other by words.
    first = nk.dedup(table, id="id", threshold=0.7)
    assert counts["kept"] < first.statistics["kept"]


def test_workers_and_the_order_of_rows_do_not_matter() -> None:
    table = table_of(9)
    shuffled = table.take(np.random.default_rng(1).permutation(len(table)))
    both = []
    for data, workers in ((table, 1), (shuffled, 2)):
        found = nk.dedup(
            data, id="id", threshold=0.7, second_measure="cosine:v:0.97", workers=workers
        ).clusters.arrow
        both.append(found.sort_by("id"))
    assert both[0].equals(both[1])


def test_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pq.write_table(table_of(2), tmp_path / "docs.parquet")
    command = ["dedup", str(tmp_path / "docs.parquet"), "--id", "id", "--threshold", "0.7"]
    out = tmp_path / "out"
    assert run([*command, "--second-measure", "cosine:v:0.97", "--out", str(out), "--json"]) == 0
    output = json.loads(capfd.readouterr().out)
    then = output["stages"]["then"]
    assert then["documents"] + then["rejected"] > 0
    assert then["removed"] > 0
    assert output["counts"]["removed_vector"] > 0
    assert any("no vector to compare" in warning for warning in output["warnings"])
    assert len(pq.read_table(out / "pairs-cosine.parquet")) > 0
    assert len(pq.read_table(out / "kept" / "docs.parquet")) == output["counts"]["kept"]
    assert "Near-duplicates by second measure" in (out / "report.html").read_text("utf-8")
    assert not (tmp_path / "out.partial").exists()
    assert (
        run([*command, "--second-measure", "cosine:missing:0.9", "--out", str(tmp_path / "b")]) == 2
    )
    assert "no column 'missing'" in capfd.readouterr().err
    for wrong in ("cosine:v", "jaccard:v:0.9", "cosine:v:2", "cosine::0.9"):
        assert run([*command, "--second-measure", wrong, "--out", str(tmp_path / "c")]) == 2
        assert "is not valid; write it as cosine:COLUMN:THRESHOLD" in capfd.readouterr().err


def test_a_second_measure_is_not_elected_again() -> None:
    with pytest.raises(UsageError, match="cannot be combined with another threshold"):
        nk.dedup(table_of(3), id="id", second_measure="cosine:v:0.97").rethreshold(0.9)


def test_empty_documents_match_nothing_by_vector_either() -> None:
    data = {"text": ["", "a b c d", "e f g h"], "v": [[1.0, 2.0], [1.0, 2.0], [2.0, 4.0]]}
    result = nk.dedup(data, second_measure="cosine:v:0.9")
    assert result.clusters["kind"].to_pylist() == ["empty", "kept", "vector"]


def test_nothing_left_for_the_second_measure() -> None:
    data = {"text": ["a b c d", "a b c d"], "v": [[1.0, 2.0], [1.0, 2.0]]}
    result = nk.dedup(data, second_measure="cosine:v:0.9")
    assert result.kept.sum() == 1


def test_pair_is_explained_by_texts_and_vectors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of(3)
    pq.write_table(table, tmp_path / "docs.parquet")
    out = tmp_path / "out"
    command = ["dedup", str(tmp_path / "docs.parquet"), "--id", "id", "--threshold", "0.7"]
    second = ["--second-measure", "cosine:v:0.97", "--out", str(out), "--quiet"]
    assert run([*command, *second]) == 0
    vectors = {row["id"]: row["v"] for row in table.to_pylist()}
    clusters = pq.read_table(out / "clusters.parquet").to_pylist()
    removed = next(row for row in clusters if row["kind"] == "vector")
    capsys.readouterr()
    assert run(["explain", removed["cluster"], removed["id"], "--run", str(out), "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    expected = cosine(vectors[removed["cluster"]], vectors[removed["id"]])
    assert explained["vectors"]["similarity"] == pytest.approx(expected, abs=1e-6)
    assert (explained["verdict"], explained["similarity"] < 0.7) == ("match", True)
    assert "the cosine" in explained["why"]
    missing = next(id for id, vector in vectors.items() if vector is None)
    assert run(["explain", removed["id"], missing, "--run", str(out)]) == 0
    assert "one of the documents has no vector" in " ".join(capsys.readouterr().out.split())
