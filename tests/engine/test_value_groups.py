"""Documents with an equal value of a column are duplicates, through every door."""

import json
import random
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine import exact_groups
from nearkin.engine.canonical_urls import canonicalize_urls
from nearkin.engine.options import RunOptions
from nearkin.errors import MissingExtraError, UsageError
from nearkin.runs.grid import check_grid, run_grid
from nearkin.runtime.progress import Silent
from tests.engine.test_across import jaccard, random_table

WORDS: dict[str, Any] = {"shingle": "words:1", "threshold": 0.5, "id": "id"}
COMPLETE = {"bands": 64, "rows": 1, "k": 64}
"""Bands of one row: a pair at 0.5 is missed with a probability of 2^-64."""
URLS = (
    "https://example.com/{0}",
    "HTTPS://Example.COM:443/{0}?utm_source=mail#top",
    "https://example.com/a/../{0}?fbclid=1",
    "https://example.com/./%{1:x}",
)


def table_with_values(seed: int, documents: int = 90) -> pa.Table:
    """Clumps of texts with two keys and a URL, of which some are shared, empty or null."""
    rng = random.Random(seed)
    table = random_table(seed, documents)
    texts = [text if rng.random() < 0.9 else "" for text in table["text"].to_pylist()]
    columns: dict[str, list[str | None]] = {"doi": [], "isbn": [], "link": []}
    for values in columns.values():
        for number in range(documents):
            shared = str(rng.randrange(12))
            values.append(rng.choice([None, "", " ", shared, f"own {number}", f"own {number}"]))
    letters = [rng.choice("abcdefgh") if rng.random() < 0.3 else None for _ in range(documents)]
    columns["link"] = [
        letter and rng.choice(URLS).format(letter, ord(letter)) for letter in letters
    ]
    table = table.set_column(table.schema.get_field_index("text"), "text", pa.array(texts))
    for name, strings in columns.items():
        table = table.append_column(name, pa.array(strings, pa.string()))
    return table


def canonical(url: str | None) -> str | None:
    """The canonical form of the URLs of these tests, by plain string operations."""
    if not url:
        return url
    plain = url.split("#")[0].split("?")[0].lower().replace(":443", "").replace("/a/..", "")
    plain = plain.replace("/./", "/")
    if "%" in plain:
        start, code = plain.split("%")
        plain = start + chr(int(code, 16))
    return plain


def is_value(text: str | None) -> bool:
    return bool(text and text.strip())


def groups_oracle(rows: list[dict[str, Any]], keys: list[str], **options: Any) -> dict[str, str]:
    """The document that represents each one: equal texts and equal values join documents."""
    group = {row["id"]: {row["id"]} for row in rows}
    for a, b in combinations(rows, 2):
        if options.get("block_by") and a[options["block_by"]] != b[options["block_by"]]:
            continue
        if options.get("empty") == "drop" and not (a["text"] and b["text"]):
            continue
        is_copy = a["text"] and a["text"].split() == b["text"].split()
        if is_copy or any(is_value(a[key]) and a[key] == b[key] for key in keys):
            joined = group[a["id"]] | group[b["id"]]
            group |= dict.fromkeys(joined, joined)
    by_id = {row["id"]: row for row in rows}

    def keep_order(name: str) -> tuple[bool, int, str]:
        text = by_id[name]["text"]
        return not text, -len(text), name

    return {name: min(members, key=keep_order) for name, members in group.items()}


def clusters_oracle(
    rows: list[dict[str, Any]], keys: list[str], **options: Any
) -> dict[str, tuple[str, str | None, bool]]:
    """The kept document, the kind if the document is removed, and whether it is kept."""
    head = groups_oracle(rows, keys, **options)
    by_id = {row["id"]: row for row in rows}
    kept: list[str] = []
    leader = {}
    for row in sorted(rows, key=lambda row: (-len(row["text"]), row["id"])):
        name = row["id"]
        if head[name] != name or not row["text"]:
            continue
        block = options.get("block_by")
        scores = [
            jaccard(row["text"], by_id[k]["text"])
            if block is None or row[block] == by_id[k][block]
            else 0.0
            for k in kept
        ]
        leader[name] = name
        if max(scores, default=0.0) >= 0.5:
            leader[name] = kept[scores.index(max(scores))]
        else:
            kept.append(name)
    outcome = {}
    for row in rows:
        name = row["id"]
        final = leader.get(head[name], head[name])
        is_dropped = options.get("empty") == "drop" and not row["text"]
        kind = None
        if final != name:
            has_text_of_head = row["text"] and row["text"] == by_id[head[name]]["text"]
            kind = "same"
            if row["text"] and row["text"] == by_id[final]["text"]:
                kind = "exact"
            elif head[name] == name or has_text_of_head:
                kind = "near"
        outcome[name] = (final, kind, final == name and not is_dropped)
    return outcome


OPTIONS: dict[str, dict[str, Any]] = {
    "one column": {"same": "doi"},
    "two columns": {"same": "doi, isbn"},
    "url": {"url": "link"},
    "all, in blocks": {"same": "isbn,doi", "url": "link", "block_by": "region"},
    "all, without empty documents": {"same": "isbn,doi", "url": "link", "empty": "drop"},
}


@pytest.mark.parametrize("form", ["brute force", "banded"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_clusters_match_plain_oracle(form: str, options: dict[str, Any]) -> None:
    table = table_with_values(5)
    rows = table.to_pylist()
    for row in rows:
        row["link"] = canonical(row["link"])
    keys = [key for key in ("doi", "isbn") if key in options.get("same", "")]
    keys += ["link"] if "url" in options else []
    result = nk.dedup(table, **WORDS, **options, **(COMPLETE if form == "banded" else {}))
    want = clusters_oracle(rows, keys, **options)
    removed_by_value = 0
    for row in result.clusters.arrow.to_pylist():
        cluster, kind, is_kept = want[row["id"]]
        assert (row["cluster"], row["kept"]) == (cluster, is_kept)
        if kind is not None:
            assert row["kind"] == kind
        assert (row["kind"] == "same") == (kind == "same")
        if kind == "same":
            removed_by_value += 1
            assert row["similarity"] is None
    assert removed_by_value
    assert result.statistics["removed_same"] == removed_by_value
    assert result.statistics["removed"] == sum(not is_kept for _, _, is_kept in want.values())


def reference_oracle(
    row: dict[str, Any], known: list[dict[str, Any]], keys: list[str], **options: Any
) -> tuple[str, str] | None:
    """The document of a reference that a document repeats, and the kind of the document."""
    found = []
    for other in known:
        block = options.get("block_by")
        if block is not None and row[block] != other[block]:
            continue
        has_texts = row["text"] and other["text"]
        has_value = any(is_value(row[key]) and row[key] == other[key] for key in keys)
        if has_texts and row["text"] == other["text"]:
            found.append((0, 0.0, other["id"], "exact"))
        elif has_value and (has_texts or options.get("empty") != "drop"):
            found.append((1, 0.0, other["id"], "same"))
        elif has_texts and jaccard(row["text"], other["text"]) >= 0.5:
            found.append((2, -jaccard(row["text"], other["text"]), other["id"], "near"))
    return min(found)[2:] if found else None


@pytest.mark.parametrize(
    ("name", "form", "only"),
    [
        ("two columns", "banded", False),
        pytest.param("url", "brute force", True, marks=pytest.mark.full),
        pytest.param("all, in blocks", "banded", False, marks=pytest.mark.full),
        ("all, without empty documents", "brute force", False),
    ],
)
def test_values_of_a_reference_match_plain_oracle(name: str, form: str, only: bool) -> None:
    options = OPTIONS[name]
    table = table_with_values(5, 110)
    is_new = [number % 3 > 0 for number in range(len(table))]
    new = table.filter(pa.array(is_new))
    old = table.filter(pc.invert(pa.array(is_new)))
    rows, known = new.to_pylist(), old.to_pylist()
    for row in (*rows, *known):
        row["link"] = canonical(row["link"])
    keys = [key for key in ("doi", "isbn") if key in options.get("same", "")]
    keys += ["link"] if "url" in options else []
    bands = COMPLETE if form == "banded" else {}
    result = nk.dedup(new, against=old, only_against=only, **WORDS, **options, **bands)
    matched = {row["id"]: reference_oracle(row, known, keys, **options) for row in rows}
    in_run = [row for row in rows if matched[row["id"]] is None]
    want = clusters_oracle(in_run, keys, **options)
    by_kind = {"exact": 0, "same": 0, "near": 0}
    for row in result.clusters.arrow.to_pylist():
        match = matched[row["id"]]
        if match is not None:
            assert (row["duplicate_of"], row["kind"]) == match
            assert (row["matched_in"], row["kept"]) == ("reference", False)
            assert (row["similarity"] is None) == (match[1] == "same")
            by_kind[match[1]] += 1
            continue
        cluster, kind, is_kept = want[row["id"]]
        if only:
            assert row["kept"]
            continue
        assert (row["cluster"], row["kept"]) == (cluster, is_kept)
        assert kind is None or (row["kind"], row["matched_in"]) == (kind, "this run")
    assert min(by_kind.values()) > 0
    statistics = result.statistics
    assert statistics["removed_reference"] == sum(by_kind.values())
    assert statistics["removed_reference_same"] == by_kind["same"]
    kinds = [] if only else [kind for _, kind, _ in want.values()]
    assert statistics["removed_same"] == kinds.count("same")
    for kind in by_kind:
        assert result.stages["against"][kind] == by_kind[kind]
    assert result.report_data.lost.unmeasured >= by_kind["same"]
    assert f"({by_kind['same']} by equal values)" in result.report_data.headline


def test_groups_do_not_depend_on_order_or_workers_or_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = table_with_values(6)
    options = {**WORDS, "same": "doi,isbn", "url": "link"}

    def clusters(documents: pa.Table, **further: Any) -> list[dict[str, Any]]:
        found = nk.dedup(documents, **options, **further).clusters.arrow.to_pylist()
        return sorted(found, key=lambda row: row["id"])

    want = clusters(table, workers=1)
    order = np.random.default_rng(1).permutation(len(table))
    assert clusters(table.take(pa.array(order)), workers=3) == want
    monkeypatch.setattr(exact_groups, "DOCUMENTS_AT_ONCE", 7)
    assert clusters(table) == want


def test_values_of_any_type_are_compared_as_text() -> None:
    texts = ["one two three", "four five six", "seven eight nine", "ten eleven"]
    for values in ([7, 7, 8, None], [b"x", b"x", b"y", None], [1.5, 1.5, 2.5, None]):
        table = pa.table({"id": list("abcd"), "text": texts, "key": values})
        clusters = nk.dedup(table, id="id", same="key").clusters.arrow
        assert clusters["cluster"].to_pylist() == ["a", "a", "c", "d"]


def test_values_that_are_not_a_number_are_not_equal() -> None:
    """pandas writes missing numbers as NaN; in a list and in Polars they are not null."""
    texts = ["one two three", "four five six", "seven eight nine", "ten eleven"]
    key = pa.array([float("nan"), float("nan"), 0.0, 0.0], from_pandas=False)
    table = pa.table({"id": list("abcd"), "text": texts, "key": key})
    result = nk.dedup(table, id="id", same="key")
    assert result.clusters.arrow["cluster"].to_pylist() == ["a", "b", "c", "c"]


@pytest.mark.parametrize("option", ["block_by", "across", "same", "url", "source", "split"])
def test_no_documents_have_no_values(option: str) -> None:
    empty = random_table(1).slice(0, 0)
    result = nk.dedup(empty, id="id", keep="region asc", **{option: "shop"})  # type: ignore[arg-type]
    assert len(result.clusters.arrow) == 0


@pytest.mark.parametrize("option", ["same", "url"])
def test_a_column_in_which_no_document_has_a_value_causes_a_warning(option: str) -> None:
    table = table_with_values(1)
    for void in (pa.nulls(len(table), pa.string()), pa.array([""] * len(table))):
        columns = {option: "void"}
        result = nk.dedup(table.append_column("void", void), id="id", **columns)  # type: ignore[arg-type]
        expected = f"no document has a value in column 'void', so {option}='void' has no effect"
        assert any(warning.startswith(expected) for warning in result.warnings)
    filled = table.append_column("void", pa.array([None] * (len(table) - 1) + ["x"]))
    result = nk.dedup(filled, id="id", **columns)  # type: ignore[arg-type]
    assert "without_values" not in result.stages["collapse"]


@pytest.mark.parametrize("rows", [0, 1])
def test_few_documents_have_no_groups(rows: int) -> None:
    table = table_with_values(1).slice(0, rows)
    result = nk.dedup(table, id="id", same="doi", url="link")
    assert result.statistics["removed_same"] == 0
    assert len(result.clusters.arrow) == rows


def test_runs_without_the_options_record_nothing_of_them() -> None:
    result = nk.dedup(table_with_values(2), **WORDS)
    assert not {"same", "url"} & set(RunOptions().parameters())
    assert "removed_same" not in result.statistics
    assert "same" not in result.stages["collapse"]
    assert "same" not in result.stages["cluster"]
    assert "removed_same" not in result.report_data.to_dict()["counts"]  # type: ignore[operator]


def test_expanded_pairs_inside_groups_have_no_similarity() -> None:
    table = table_with_values(7)
    rows = table.to_pylist()
    head = groups_oracle(rows, ["doi"])
    by_id = {row["id"]: row for row in rows}
    pairs = nk.pairs(table, same="doi", expand_exact=True, **WORDS).pairs.arrow.to_pylist()
    found = {frozenset((row["id_a"], row["id_b"])): row["similarity"] for row in pairs}
    assert len(found) == len(pairs)
    for a, b in combinations(rows, 2):
        pair = frozenset((a["id"], b["id"]))
        if head[a["id"]] == head[b["id"]]:
            is_copy = a["text"] and a["text"] == b["text"]
            assert found[pair] == (1.0 if is_copy else None)
            continue
        stands = [row["text"] and row["text"] == by_id[head[row["id"]]]["text"] for row in (a, b)]
        similarity = jaccard(a["text"], b["text"]) if all(stands) else 0.0
        assert found.get(pair, 0.0) == pytest.approx(similarity if similarity >= 0.5 else 0.0)
    assert None in found.values()


def test_second_measure_moves_documents_with_an_equal_value_along() -> None:
    """b1 is removed for c1 by its vector; a2 has the value of b1, and no vector near c1."""
    texts = ["w1 w2 w3 w4 w5 w6", "q1 q2 q3", "z1 z2 z3 z4 z5 z6 z7 z8"]
    table = pa.table(
        {
            "id": ["b1", "a2", "c1"],
            "text": texts,
            "key": ["k", "k", None],
            "v": pa.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], pa.list_(pa.float32(), 2)),
        }
    )
    result = nk.dedup(table, second_measure="cosine:v:0.9", same="key", **WORDS)
    rows = result.clusters.arrow.to_pylist()
    assert [row["cluster"] for row in rows] == ["c1", "c1", "c1"]
    assert [row["kind"] for row in rows] == ["vector", "same", "kept"]
    assert rows[1]["similarity"] is None


def test_grid_has_the_clusters_of_separate_runs() -> None:
    table = table_with_values(8)
    cells = check_grid("same=doi,isbn,doi+isbn;empty=keep,drop", {"threshold": 0.5})
    for found in run_grid(cells, table, "id", {}, Silent()):
        alone = nk.dedup(table, id="id", **cells[found.position].values).clusters.arrow
        ids, clusters = (alone[name].to_pylist() for name in ("id", "cluster"))
        assert found.clusters == dict(zip(ids, clusters, strict=True))


def test_contradictory_options_are_refused() -> None:
    table = table_with_values(1)
    for options, message in (
        ({"same": "doi", "across": "shop"}, "same='doi' and across='shop' exclude each other"),
        ({"url": "link", "across": "shop"}, "url='link' and across='shop' exclude each other"),
        ({"same": "doi", "max_lost": 0.1}, "same='doi' cannot be combined with a condition"),
        ({"url": "link", "max_lost": 0.1}, "url='link' cannot be combined with a condition"),
        ({"same": "doi,,isbn"}, "same='doi,,isbn' is not valid"),
        ({"same": "doi,doi"}, "same='doi,doi' is not valid"),
        ({"same": ""}, "same='' is not valid"),
        ({"same": "link", "url": "link"}, "column 'link' is in same='link' and url='link'"),
        ({"same": "dio"}, "dio"),
        ({"url": "lnik"}, "lnik"),
    ):
        with pytest.raises(UsageError, match=message):
            nk.dedup(table, **WORDS, **options)  # type: ignore[arg-type]


def test_option_url_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yarl", None)
    with pytest.raises(MissingExtraError, match=r"option url requires yarl; .*\[urls\]"):
        nk.dedup(table_with_values(1), url="link", **WORDS)


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("HTTP://Example.com/a", "http://example.com/a"),
        ("http://example.com:80/a", "http://example.com/a"),
        ("https://example.com:443", "https://example.com/"),
        ("https://example.com/a?id=1&utm_source=x&gclid=y", "https://example.com/a?id=1"),
        ("https://example.com/?UTM_Medium=x", "https://example.com"),
        ("https://example.com/a#part", "https://example.com/a"),
        ("https://example.com/a/./b/../c", "https://example.com/a/c"),
        ("https://example.com/%7euser/%c3%a9", "https://example.com/~user/é"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        (" https://example.com/a\n", "https://example.com/a"),
        ("http://[::1]:80/", "http://[::1]/"),
    ],
)
def test_equal_urls(url: str, other: str) -> None:
    first, second = canonicalize_urls(pa.array([url, other], pa.large_string())).to_pylist()
    assert first == second


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("http://example.com/a", "https://example.com/a"),
        ("https://example.com/a", "https://example.com/a/"),
        ("https://example.com/a", "https://example.com/A"),
        ("https://example.com/a?x=1&y=2", "https://example.com/a?y=2&x=1"),
        ("https://example.com/a%2Fb", "https://example.com/a/b"),
        ("https://example.com:8080/", "https://example.com/"),
        ("https://www.example.com/", "https://example.com/"),
        ("https://example.com/?b=c%26d", "https://example.com/?b=c&d"),
        ("http://x:99999/", "http://x/"),
        ("http://[::1", "http://[::2"),
        ("mailto:a@b", "mailto:A@b"),
        ("not a URL", "not  a URL"),
    ],
)
def test_different_urls(url: str, other: str) -> None:
    first, second = canonicalize_urls(pa.array([url, other], pa.large_string())).to_pylist()
    assert first != second


@pytest.mark.parametrize(
    "text", ["http://[~.:h\u2100h]h[-&&@", "http://", "http://[", "http://x:y/", "//x/y", "\0", ":"]
)
def test_text_that_is_not_a_url_is_compared_as_it_is(text: str) -> None:
    assert canonicalize_urls(pa.array([text], pa.large_string())).to_pylist() == [text]


COMMAND = ("--id", "id", "--shingle", "words:1", "--threshold", "0.5", "--same", "doi,isbn")


def test_commands_saved_runs_report_and_explain_agree(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def summary(*arguments: str) -> Any:
        assert run([*arguments, "--json"]) == 0, capfd.readouterr().err
        return json.loads(capfd.readouterr().out)

    table = table_with_values(11)
    corpus = tmp_path / "documents.parquet"
    pq.write_table(table, corpus)
    options: dict[str, Any] = {**WORDS, "same": "doi,isbn", "url": "link"}
    want = nk.dedup(table, **options).clusters.arrow
    first = tmp_path / "first"
    command = [*COMMAND, "--url", "link"]
    record = summary("dedup", str(corpus), "--out", str(first), *command, "--save-signatures")
    assert (record["parameters"]["same"], record["parameters"]["url"]) == ("doi,isbn", "link")
    assert record["counts"]["removed_same"] == want["kind"].to_pylist().count("same")
    clusters = pq.read_table(first / "clusters.parquet")
    assert clusters.equals(want.cast(clusters.schema))
    again = tmp_path / "again"
    summary("dedup", str(first), "--out", str(again), *command[4:])
    assert pq.read_table(again / "clusters.parquet").equals(clusters)
    assert "Equal values" in (first / "report.html").read_text()
    assert run(["dedup", str(first), "--out", str(tmp_path / "shown"), *command[4:]]) == 0
    assert "more by equal values" in " ".join(capfd.readouterr().err.split())
    row = next(row for row in clusters.to_pylist() if row["kind"] == "same")
    explained = summary("explain", row["id"], row["cluster"], "--run", str(first))
    assert f"both are in the cluster of {row['cluster']}" in explained["why"]
    pair = next(
        (a, b)
        for a, b in combinations(table.to_pylist(), 2)
        if (a["doi"] or "").strip() and a["doi"] == b["doi"]
    )
    explained = summary("explain", pair[0]["id"], pair[1]["id"], "--run", str(first))
    assert explained["verdict"] == "not compared"
    assert "they have the same value in column 'doi'" in explained["why"]
    assert run(["index", "build", str(first), "--store", f"sqlite:///{tmp_path}/kin.db"]) == 2
    assert "it joined documents with equal values" in capfd.readouterr().err
    pairs_file = tmp_path / "pairs.parquet"
    summary("pairs", str(corpus), "--out", str(pairs_file), *command, "--expand-exact")
    expanded = nk.pairs(table, expand_exact=True, **options).pairs.arrow
    assert pq.read_table(pairs_file).to_pylist() == expanded.to_pylist()


@pytest.mark.parametrize("role", ["same", "url"])
@pytest.mark.parametrize("blank", [None, "", " ", "\t", "\u00a0\u3000"])
def test_documents_with_blank_values_are_not_duplicates(role: str, blank: str | None) -> None:
    rows = [{"text": "a b c d e", "key": blank}, {"text": "q r s t u", "key": blank}]
    settings: dict[str, Any] = {role: "key"}
    assert nk.dedup(rows, **settings).kept.tolist() == [True, True]
