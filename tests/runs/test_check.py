"""Checks find the near-duplicates between two corpora, through the library and the command."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.errors import UsageError
from tests.engine.test_across import jaccard, random_table

WORDS: dict[str, Any] = {"shingle": "words:1", "threshold": 0.5, "id": "id"}
COMPLETE = {"bands": 256, "rows": 1, "k": 256, "scheme": "classic", "recall": 0.9999999}
"""Bands of one row of independent slots: a pair at 0.5 has no common band with a probability of
2^-256, and the prefilter, which the recall decides, drops one in ten million."""


@pytest.fixture(scope="module")
def corpora() -> tuple[pa.Table, pa.Table]:
    """Two corpora with common ids, copies of each other and near-duplicates inside each."""
    table = random_table(4, 120)
    ids = pa.array([f"d{number}" for number in range(60)])
    columns = table.drop_columns(["id"])
    first, second = columns.slice(0, 60), columns.slice(60)
    return first.append_column("id", ids), second.append_column("id", ids)


def pairs_oracle(
    first: pa.Table, second: pa.Table, block_by: str | None = None
) -> dict[tuple[str, str], float]:
    """The near-duplicates between two corpora, by comparing all pairs."""
    return {
        (a["id"], b["id"]): jaccard(a["text"], b["text"])
        for a, b in product(first.to_pylist(), second.to_pylist())
        if jaccard(a["text"], b["text"]) >= 0.5 and (block_by is None or a[block_by] == b[block_by])
    }


def pairs_of(table: Any) -> dict[tuple[str, str], float]:
    rows = table.to_pylist()
    found = {(row["id_a"], row["id_b"]): row["similarity"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("form", [{}, COMPLETE, {"block_by": "region"}])
def test_pairs_between_two_tables_match_plain_oracle(
    form: dict[str, Any], corpora: tuple[pa.Table, pa.Table]
) -> None:
    first, second = corpora
    want = pairs_oracle(first, second, form.get("block_by"))
    assert 1.0 in want.values()
    result = nk.check(first, second, **WORDS, **form)
    assert pairs_of(result.pairs.arrow) == pytest.approx(want)
    assert len(result) == len(want)
    assert result.documents == (60, 60)
    assert result.affected == (len({a for a, _ in want}), len({b for _, b in want}))
    assert result.shares == tuple(
        affected / documents
        for affected, documents in zip(result.affected, result.documents, strict=True)
    )
    assert not any("share an id" in warning for warning in result.warnings)


def test_first_corpus_decides_the_first_id(corpora: tuple[pa.Table, pa.Table]) -> None:
    first, second = corpora
    swapped = pairs_of(nk.check(second, first, **WORDS).pairs.arrow)
    assert {(b, a) for a, b in swapped} == set(pairs_oracle(first, second))


def test_rows_without_ids_have_the_numbers_of_their_own_corpus() -> None:
    first, second = (
        ["one two three four", "x y z"],
        ["nothing like it", "p q", "one two three four"],
    )
    result = nk.check(first, second)
    assert set(pairs_of(result.pairs.arrow)) == {("0000000000", "0000000002")}
    measured = nk.check(["a b c d"], ["a b c d"], measure="simhash", distance=3).pairs.arrow
    assert measured["distance"].to_pylist() == [0]


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_empty_corpora_have_no_pairs(empty: int, corpora: tuple[pa.Table, pa.Table]) -> None:
    first = corpora[0].slice(0, 0 if empty != 1 else 60)
    second = corpora[1].slice(0, 0 if empty != 0 else 60)
    assert len(nk.check(first, second, **WORDS)) == 0


def test_contradictory_requests_are_refused(
    corpora: tuple[pa.Table, pa.Table], tmp_path: Path
) -> None:
    for options, message in (
        ({"across": "shop"}, "across='shop' has no effect on a check"),
        ({"same": "shop"}, "a check and same='shop' exclude each other"),
        ({"max_lost": 0.1}, "cannot be combined with a check"),
        ({"block_by": "nothing"}, "nothing"),
    ):
        with pytest.raises(UsageError, match=message):
            nk.check(*corpora, **{**WORDS, **options})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot be combined with a check"):
        nk.check(*corpora, accept="safe")
    path = tmp_path / "a.parquet"
    pq.write_table(corpora[0], path)
    for given in (path, [path], iter([path])):
        with pytest.raises(UsageError, match="is a path, and the other corpus is a table"):
            nk.check(given, corpora[1], **WORDS)
    for others in (tmp_path, [path]):
        with pytest.raises(UsageError, match="is in both inputs"):
            nk.check(path, others, **WORDS)


def test_corpora_are_paths_or_several_paths(
    corpora: tuple[pa.Table, pa.Table], tmp_path: Path
) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    pq.write_table(corpora[0], paths[0])
    half = len(corpora[1]) // 2
    pq.write_table(corpora[1].slice(0, half), paths[1])
    pq.write_table(corpora[1].slice(half), paths[2])
    found = nk.check(paths[0], paths[1:], **WORDS)
    assert found.pairs.to_pylist() == nk.check(*corpora, **WORDS).pairs.to_pylist()


def test_corpora_whose_columns_have_different_types_are_refused() -> None:
    with pytest.raises(UsageError, match="do not fit into one table: Unable to merge"):
        nk.check({"id": [1], "text": ["a"]}, {"id": ["x"], "text": ["a"]}, id="id")


COMMAND = ("--id", "id", "--shingle", "words:1", "--threshold", "0.5")


def test_command_ends_with_3_if_there_are_more_pairs_than_allowed(
    corpora: tuple[pa.Table, pa.Table], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # The folder of the first corpus comes after the second one in the order of names.
    paths = [tmp_path / "train" / "x.parquet", tmp_path / "test" / "x.parquet"]
    for path, table in zip(paths, corpora, strict=True):
        path.parent.mkdir()
        pq.write_table(table, path)
    want = pairs_oracle(*corpora)
    out = tmp_path / "leaks.parquet"
    command = ["check", str(paths[0].parent), str(paths[1].parent), *COMMAND]
    assert app.run([*command, "--out", str(out), "--json"]) == 3
    summary = json.loads(capfd.readouterr().out)
    assert (summary["pairs"], summary["max"], summary["passed"]) == (len(want), 0, False)
    assert summary["documents"] == [60, 60]
    assert pairs_of(pq.read_table(out)) == pytest.approx(want)
    assert pairs_of(nk.check(*paths, **WORDS).pairs.arrow) == pytest.approx(want)
    assert app.run([*command, "--max", str(len(want))]) == 0
    shown = capfd.readouterr().err
    assert f"{len(want)} pairs of near-duplicates (allowed)" in shown
    assert f"… and {len(want) - 3} more" in shown
    assert shown.splitlines()[-1].startswith("Next: nearkin check ")
    assert shown.splitlines()[-1].endswith(" --out leaks.csv")
    assert shown.count("'d") == 6
    listed = [line.split()[1] for line in shown.splitlines() if line.startswith("similarity ")]
    most_similar = sorted(want.values(), reverse=True)[:3]
    assert [float(similarity) for similarity in listed] == pytest.approx(most_similar, abs=1e-3)
    assert app.run([*command, "--out", str(out)]) == 2
    assert "exists" in capfd.readouterr().err
    assert app.run([*command, "--out", str(out), "--overwrite", "--quiet"]) == 3
    assert app.run([*command, "--max", "-1"]) == 2
    assert app.run(["check", str(paths[0]), str(paths[0]), *COMMAND]) == 2
    assert "is in both inputs" in capfd.readouterr().err
    link = out.with_name("link.parquet")
    link.symlink_to(paths[0])
    assert app.run(["check", str(paths[0]), str(link), *COMMAND]) == 2
    assert "is in both inputs" in capfd.readouterr().err
    hard_link = out.with_name("hard.parquet")
    hard_link.hardlink_to(paths[0])
    assert app.run(["check", str(paths[0]), str(hard_link), *COMMAND]) == 2
    assert "is in both inputs" in capfd.readouterr().err
    assert app.run([*command, "--out", str(paths[0]), "--overwrite"]) == 2
    assert app.run([*command, "--across", "shop"]) == 2
    assert "--across shop has no effect on a check" in capfd.readouterr().err


def test_affected_documents_are_shown_with_their_number_and_share() -> None:
    texts = [" ".join(f"w{i}x{j}" for j in range(30)) for i in range(4)]
    result = nk.check(texts[:1], texts)
    assert repr(result) == "<CheckResult: 1 pairs, 1 of 4 documents (25.0%) affected>"
    assert "1 of 4 documents (25.0%)" in result._repr_html_()
