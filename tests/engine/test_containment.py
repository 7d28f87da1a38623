from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.containment_margins import SMALLEST
from nearkin.errors import UsageError
from nearkin.stages.lsh.solve import largest_margin
from nearkin.stages.sketch.resources import SpecResources
from nearkin.stages.verify.jaccard import SetBuilder


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Long documents; short ones that quote them whole, with edits, or not at all; equal ones.

    A tiny one.
    """
    rng = np.random.default_rng(12)
    words = np.array([f"w{i}" for i in range(5000)])
    long = [list(rng.choice(words, rng.integers(600, 2500))) for _ in range(60)]
    out = [" ".join(document) for document in long]
    for i in range(120):
        host = long[i % 60]
        size = int(rng.integers(20, 200))
        at = int(rng.integers(0, len(host) - size))
        quote = host[at : at + size]
        for _ in range(i % 5):
            quote[int(rng.integers(size))] = f"edit{i}"
        out.append(" ".join([*quote, *rng.choice(words, i % 3 * 10)]))
    return [*out, out[70], " ".join(long[3][10:13]), "", "one"]


def brute_force(
    texts: list[str], threshold: float, skip: set[int]
) -> dict[tuple[int, int], tuple[float, float]]:
    sets = [shingles(text) if text else set() for text in texts]
    found = {}
    for a, x in enumerate(sets):
        for b, y in enumerate(sets):
            larger = (len(y), b) > (len(x), a)
            if a != b and x and larger and not {a, b} & skip and len(x & y) >= threshold * len(x):
                found[a, b] = (len(x & y) / len(x), len(x & y) / len(x | y))
    return found


@pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
def test_contained_pairs_match_brute_force(threshold: float, texts: list[str]) -> None:
    result_pairs = nk.pairs(
        texts, relation="containment", threshold=threshold, recall=0.99
    ).pairs.arrow.to_pylist()
    got = {
        (int(row["id_a"]), int(row["id_b"])): (row["containment"], row["jaccard"])
        for row in result_pairs
    }
    # The two equal documents are represented by one of them: whichever the pairs do not name.
    named = {i for pair in got for i in pair}
    want = brute_force(texts, threshold, {70, 180} - named or {180})
    assert got.items() <= want.items()
    assert len(got) >= 0.97 * len(want) > 5


def test_partitions_and_workers_do_not_matter(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = nk.pairs(texts, relation="containment", workers=1).pairs.arrow
    monkeypatch.setattr("nearkin.engine.containment_search.BYTES_PER_HASH", 10**6)
    many = nk.pairs(texts, relation="containment", workers=2).pairs.arrow
    assert one.equals(many)


def test_crowded_shingles_are_counted(texts: list[str]) -> None:
    result = nk.pairs(
        texts + ["a b c d e f g h " + text for text in texts],
        relation="containment",
        hot_bucket_size=2,
        pair_budget=0,
    )
    assert result.stages["containment"]["hot_shingles"] > 0


def count_plainly(texts: list[str], threshold: float, most: int) -> tuple[int, int]:
    """Returns the numbers of hot shingles and of candidates, counted one by one."""
    builder = SetBuilder(SpecResources().shingler(nk.Spec()))
    distinct = [text for text in dict.fromkeys(texts) if text]
    sets = [set(builder.build(pa.array([text], pa.large_string())).hashes) for text in distinct]
    smallest = [sorted(hashes)[:SMALLEST] for hashes in sets]
    owners = Counter(value for hashes in smallest for value in hashes)
    hot = {value for value, count in owners.items() if count > most}
    margins = [largest_margin(n, threshold, 0.95) for n in range(SMALLEST + 1)]
    candidates = 0
    for a, hashes in enumerate(smallest):
        looked_up = set(hashes) - hot
        for b, others in enumerate(sets):
            is_larger = (len(others), b) > (len(sets[a]), a)
            hits = len(looked_up & others)
            candidates += a != b and is_larger and hits >= max(1, margins[len(looked_up)])
    return len(hot), candidates


@pytest.mark.parametrize("quoting", [0, 30])
def test_totals_are_those_of_a_plain_count(quoting: int, texts: list[str]) -> None:
    quote = " ".join(f"q{i}" for i in range(12))
    quoted = [*texts, *(f"{quote} {text}" for text in texts[:quoting])]
    result = nk.pairs(
        quoted, relation="containment", hot_bucket_size=20, pair_budget=0, threshold=0.8
    )
    totals = result.stages["containment"]
    hot, candidates = count_plainly(quoted, 0.8, most=20)
    assert (hot > 0) == (quoting > 20)
    assert (totals["hot_shingles"], totals["candidates"]) == (hot, candidates)
    assert totals["pairs"] == len(result.pairs)


def test_command_line(texts: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for i, text in enumerate(texts):
        (tmp_path / f"{i:03}.txt").write_text(text)
    out = tmp_path / "contained.parquet"
    command = [
        "pairs",
        str(tmp_path / "*.txt"),
        "--relation",
        "containment",
        "--threshold",
        "0.9",
        "--out",
        str(out),
    ]
    assert run(command) == 0
    table = pq.read_table(out)
    assert table.column_names == ["id_a", "id_b", "containment", "jaccard"]
    assert len(table) > 30
    assert run([*command[:3], "overlap", *command[4:], "--overwrite"]) == 2
    assert "--relation overlap is not one of similarity, containment" in capfd.readouterr().err
    assert run([*command, "--overwrite", "--measure", "simhash"]) == 2
    assert "measure jaccard, not simhash" in capfd.readouterr().err
    assert run([*command, "--overwrite", "--expand-exact"]) == 2


def test_empty_documents_are_not_contained() -> None:
    assert len(nk.pairs(["", "a b c d"], relation="containment").pairs) == 0
    with pytest.raises(UsageError, match="relation='x'"):
        nk.pairs(["a"], relation="x")
