"""Given fingerprints: the pairs within a Hamming distance, through every door."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.settings_file import Settings
from nearkin.errors import UsageError
from nearkin.settings.spec import Spec


def clumps(seed: int, documents: int, bits: int, most: int) -> list[int]:
    """Random fingerprints, half of which differ from another one in up to `most` bits."""
    rng = np.random.default_rng(seed)
    values = [int.from_bytes(rng.bytes(bits // 8)) for _ in range(documents // 2)]
    while len(values) < documents:
        value = values[int(rng.integers(len(values)))]
        for bit in rng.choice(bits, int(rng.integers(most + 1)), replace=False).tolist():
            value ^= 1 << bit
        values.append(value)
    return values


def table_of(values: list[int], bits: int) -> pa.Table:
    digits = bits // 4
    ids = [f"d{number}" for number in range(len(values))]
    return pa.table({"id": ids, "hash": [f"{value:0{digits}x}" for value in values]})


def pairs_within(values: list[int], distance: int) -> set[tuple[str, str, int]]:
    """All pairs within a distance, by brute force."""
    far = [
        (a, b, (values[a] ^ values[b]).bit_count()) for a, b in combinations(range(len(values)), 2)
    ]
    return {(f"d{a}", f"d{b}", bits) for a, b, bits in far if bits <= distance}


def listed(pairs: pa.Table) -> set[tuple[str, str, int]]:
    rows = pairs.to_pylist()
    return {(row["id_a"], row["id_b"], row["distance"]) for row in rows}


@pytest.mark.parametrize(("bits", "distance"), [(64, 0), (64, 4), (128, 9), (192, 12), (256, 31)])
def test_all_pairs_of_fingerprints_within_the_distance_are_found(bits: int, distance: int) -> None:
    values = clumps(bits + distance, 300, bits, 2 * distance + 2)
    result = nk.pairs(
        table_of(values, bits),
        id="id",
        fingerprint="hash",
        bits=bits,
        distance=distance,
        expand_exact=True,
    )
    expected = pairs_within(values, distance)
    assert listed(result.pairs.arrow) == expected
    assert len(expected) > 10
    rows = result.pairs.arrow.to_pylist()
    assert all(row["similarity"] == 1 - row["distance"] / bits for row in rows)


def test_bands_find_the_pairs_of_a_larger_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 10)
    values = clumps(3, 900, 64, 7)
    # More documents than a usual hot bucket agree in all but a few bits.
    values += [values[0] ^ (1 << a) ^ (1 << b) for a, b in combinations(range(20), 2)]
    for workers, memory in ((1, "512MiB"), (2, "1GB")):
        result = nk.pairs(
            table_of(values, 64),
            id="id",
            fingerprint="hash",
            distance=4,
            expand_exact=True,
            workers=workers,
            memory=memory,
        )
        assert listed(result.pairs.arrow) == pairs_within(values, 4)


def test_removed_documents_are_within_the_distance_of_the_kept_one() -> None:
    values = clumps(5, 400, 64, 6)
    table = table_of(values, 64).append_column("rank", pa.array(range(400)))
    result = nk.dedup(table, id="id", fingerprint="hash", distance=4, keep="rank desc")
    by_id = dict(zip(table["id"].to_pylist(), values, strict=True))
    kept: list[int] = []
    for row in result.clusters.arrow.to_pylist():
        distance = (by_id[row["id"]] ^ by_id[row["cluster"]]).bit_count()
        assert distance <= 4
        assert row["kept"] == (row["id"] == row["cluster"])
        assert (row["kind"] == "exact") <= (distance == 0)
        if row["kept"]:
            kept.append(by_id[row["id"]])
    assert all((a ^ b).bit_count() > 4 for a, b in combinations(kept, 2))


def command(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


def test_a_run_counts_invalid_fingerprints_and_can_be_repeated_from_signatures(
    tmp_path: Path,
) -> None:
    values = clumps(7, 120, 64, 6)
    lines = [json.dumps({"id": f"d{at}", "hash": value}) for at, value in enumerate(values)]
    bad = ['{"id": "x", "hash": null}', '{"id": "y", "hash": "12"}', '{"id": "z"}']
    source = tmp_path / "docs.jsonl"
    source.write_text("\n".join([*lines, *bad]))
    options = ("--fingerprint", "hash", "--id", "id", "-q")
    out = tmp_path / "out"
    saving = ("--distance", 4, "--out", out, "--save-signatures", "--audit")
    assert command("dedup", source, *options, *saving) == 0
    record = json.loads((out / "run.json").read_text())
    assert record["counts"]["rejected"] == 3
    assert record["columns"]["fingerprint"] == "hash"
    assert record["audit"]["precision"]["value"] == 1
    assert len((out / "rejected.jsonl").read_text().splitlines()) == 3
    kept = (out / "kept" / "docs.jsonl").read_text().splitlines()
    direct = nk.dedup(str(source), id="id", fingerprint="hash", distance=4)
    assert len(kept) == int(direct.kept.sum())
    again = tmp_path / "again"
    assert command("dedup", out, "--distance", 2, "--out", again, "-q") == 0
    stricter = nk.dedup(str(source), id="id", fingerprint="hash", distance=2)
    clusters = pq.read_table(again / "clusters.parquet").select(["id", "cluster"])
    assert clusters.to_pylist() == (stricter.clusters.arrow.select(["id", "cluster"]).to_pylist())
    listed_file = tmp_path / "pairs.parquet"
    pairs = ("pairs", source, *options, "--distance", 4, "--expand-exact", "--out", listed_file)
    assert command(*pairs) == 0
    assert listed(pq.read_table(listed_file)) == pairs_within(values, 4)


def test_documents_within_the_distance_of_a_reference_are_removed() -> None:
    values = clumps(9, 300, 64, 6)
    new, old = table_of(values[150:], 64), table_of(values[:150], 64)
    result = nk.dedup(new, id="id", fingerprint="hash", distance=3, against=old, only_against=True)
    expected = [any((a ^ b).bit_count() <= 3 for b in values[:150]) for a in values[150:]]
    assert [not kept for kept in result.kept.tolist()] == expected


def test_a_finished_run_is_a_reference_for_fingerprints_of_as_many_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = clumps(15, 60, 64, 3)
    short, long = tmp_path / "short.parquet", tmp_path / "long.parquet"
    pq.write_table(table_of(values, 64), short)
    pq.write_table(table_of([value << 64 | value for value in values], 128), long)
    options = ("--fingerprint", "hash", "--id", "id", "--distance", 3, "--max-removed", 1, "-q")
    old, new = tmp_path / "old", tmp_path / "new"
    assert command("dedup", short, *options, "--out", old) == 0
    assert command("dedup", short, *options, "--against", old, "--out", new) == 0
    assert json.loads((new / "run.json").read_text())["counts"]["kept"] == 0
    against = ("--bits", 128, "--against", old, "--out", tmp_path / "other")
    assert command("dedup", long, *options, *against) == 2
    assert "has fingerprints of 64 bits" in " ".join(capsys.readouterr().err.split())
    assert command("review", old) == 2


def test_a_run_warns_of_fingerprints_that_it_did_not_compare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 10)
    crowd = [(1 << a) ^ (1 << b) for a, b in combinations(range(12), 2)]
    table = table_of([*clumps(17, 100, 64, 6), *crowd], 64)

    def warns_with_budget(budget: int | None) -> bool:
        options = {"hot_bucket_size": 5, "pair_budget": budget, "fanout": 1}
        result = nk.dedup(table, id="id", fingerprint="hash", distance=3, **options)
        return any("may be missed" in text for text in result.report_data.all_warnings)

    assert not warns_with_budget(10)
    monkeypatch.setattr("nearkin.engine.hot_bucket_loop.MOST_ROUNDS", 1)
    monkeypatch.setattr("nearkin.engine.candidates.GROUPING_LEVELS", 1)
    assert warns_with_budget(10)
    assert not warns_with_budget(None)


def test_splits_and_checks_take_fingerprints() -> None:
    values = clumps(19, 120, 64, 5)
    table = table_of(values, 64)
    split = nk.split(table, [0.5, 0.5], id="id", fingerprint="hash", distance=3)
    groups = [split.select(table, name)["id"].to_pylist() for name in split.names]
    group_of = {id: number for number, ids in enumerate(groups) for id in ids}
    assert len(group_of) == len(values)
    assert all(group_of[a] == group_of[b] for a, b, _ in pairs_within(values, 3))
    checked = nk.check(table.slice(0, 60), table.slice(60), id="id", fingerprint="hash", distance=3)
    between = {(a, b) for a, b, _ in pairs_within(values, 3) if int(a[1:]) < 60 <= int(b[1:])}
    rows = checked.pairs.arrow.to_pylist()
    assert {(row["id_a"], row["id_b"]) for row in rows} == between


def test_a_settings_file_sets_the_bits_and_the_distance(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('measure = "hamming"\nbits = 128\ndistance = 5\n')
    values = clumps(11, 100, 128, 8)
    table = table_of(values, 128)
    by_file = nk.pairs(table, id="id", fingerprint="hash", settings=path, expand_exact=True)
    assert listed(by_file.pairs.arrow) == pairs_within(values, 5)
    with pytest.raises(UsageError, match="bits=64"):
        Settings({"bits": 64})
    with pytest.raises(UsageError, match="Hamming distance, which is not given"):
        Settings({"measure": "hamming"})


def test_a_given_spec_decides_the_bits() -> None:
    values = clumps(13, 60, 128, 6)
    spec = Spec(measure="hamming", unit="fingerprint", n=128)
    result = nk.pairs(
        table_of(values, 128), id="id", fingerprint="hash", spec=spec, distance=4, expand_exact=True
    )
    assert listed(result.pairs.arrow) == pairs_within(values, 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "Hamming distance, which is not given; give distance=4"),
        ({"distance": 32}, "distance=32 is out of range; it must be from 0 to 31"),
        ({"distance": 4, "bits": 65}, "fingerprints of 65 bits are not supported"),
        ({"distance": 4, "bits": 512}, "fingerprints of 512 bits are not supported"),
        ({"distance": 4, "text": "id"}, "exclude each other"),
        ({"distance": 4, "k": 64}, "`fingerprint` and `k` exclude each other"),
        ({"distance": 4, "shingle": "words:1"}, "`fingerprint` and `shingle` exclude"),
        ({"distance": 4, "measure": "simhash"}, "fingerprints are compared by hamming"),
        ({"distance": 4, "max_lost": 0.1}, "compares sets of shingles"),
        ({"distance": 4, "max_df": 0.5}, "`fingerprint` and `max_df` exclude each other"),
        (
            {"distance": 4, "key": nk.HashKey(bytes(16))},
            "`fingerprint` and `key` exclude each other",
        ),
        ({"distance": 4, "fingerprint": "nosuch"}, "no column 'nosuch'"),
    ],
)
def test_contradictions_of_fingerprints_are_errors(
    parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        nk.dedup(table_of([1, 2], 64), **{"fingerprint": "hash", **parameters})


def test_bits_and_the_measure_hamming_need_a_column_of_fingerprints() -> None:
    with pytest.raises(UsageError, match="no column of fingerprints is named"):
        nk.dedup(["a"], bits=64)
    with pytest.raises(UsageError, match="name their column with `fingerprint`"):
        nk.dedup(["a"], measure="hamming")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text", "id"), "--fingerprint and --text exclude each other"),
        (("--seed", "3"), "--fingerprint and --seed exclude each other"),
        (("--bits", "100"), "fingerprints of 100 bits are not supported"),
        (("--bits", "32"), "fingerprints of 32 bits are not supported"),
        (("--bits", "0"), "--bits 0 is out of range"),
        (("--tables", "2"), "--distance and --tables exclude each other"),
    ],
)
def test_contradictory_options_end_a_command_before_anything_is_written(
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = tmp_path / "docs.parquet"
    pq.write_table(table_of([1, 2], 64), source)
    given = ("dedup", source, "--fingerprint", "hash", "--distance", 3, *options)
    assert command(*given, "--out", tmp_path / "out") == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs.parquet"]


def test_nothing_else_takes_a_spec_of_fingerprints() -> None:
    spec = Spec(measure="hamming", unit="fingerprint", n=64)
    with pytest.raises(UsageError, match="HammingIndex"):
        nk.Index.open("memory://", spec)
    with pytest.raises(UsageError, match="their own signatures"):
        nk.sketch(["00" * 8], spec)
    with pytest.raises(UsageError, match="its own signature"):
        nk.Signature.from_text("a", spec)


@pytest.mark.parametrize("values", [[], [7]])
def test_no_fingerprint_and_a_single_one_have_no_pairs(values: list[int]) -> None:
    table = pa.table({"id": pa.array([], pa.string()), "hash": pa.array([], pa.uint64())})
    table = pa.concat_tables([table, pa.table({"id": ["a"], "hash": pa.array([7], pa.uint64())})])
    result = nk.dedup(table.slice(0, len(values)), id="id", fingerprint="hash", distance=2)
    assert result.kept.tolist() == [True] * len(values)


ZEROS = "0" * 16
ONES = "f" * 16
SCANS = {
    "id": list("abcdefg"),
    "hash": [ZEROS, ZEROS, ONES, ONES, "8f373714acfcf4d0", "8f373714acfcf4d1", f"{ZEROS[1:]}1"],
    "text": ["a b c"] * 7,
}
"""Blank scans, two copies of a picture, and one that resembles a blank scan by chance."""


def rows_of_scans(tmp_path: Path, suffix: str) -> Path:
    path = tmp_path / f"scans{suffix}"
    table = pa.table(SCANS)
    if suffix == ".parquet":
        pq.write_table(table, path)
    elif suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif suffix == ".json":
        path.write_text(json.dumps(table.to_pylist()))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return path


def test_constant_fingerprints_that_make_copies_are_a_warning() -> None:
    result = nk.dedup(SCANS, fingerprint="hash", distance=2)
    assert result.kept.tolist() == [True, False, True, False, True, False, False]
    warnings = [warning for warning in result.warnings if "count as copies" in warning]
    assert [warning.split()[:2] for warning in warnings] == [["2", "documents"]] * 2
    for fingerprint, warning in zip((ZEROS, ONES), warnings, strict=True):
        assert f"ignore_fingerprint={fingerprint!r}" in warning
    fields = nk.dedup(SCANS, fields=["hash:hamming<=2"])
    assert [warning for warning in fields.warnings if "count as copies" in warning] == warnings
    single = nk.dedup({"hash": [ZEROS, ONES, "1" * 16]}, fingerprint="hash", distance=2)
    assert not single.warnings


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".json"])
def test_ignored_fingerprints_are_kept_and_compared_with_no_other(
    tmp_path: Path, suffix: str
) -> None:
    path = rows_of_scans(tmp_path, suffix)
    ignored = [ZEROS, f"0x{ONES.upper()}"]
    for data in (str(path), SCANS):
        result = nk.dedup(data, id="id", fingerprint="hash", distance=2, ignore_fingerprint=ignored)
        assert result.kept.tolist() == [True, True, True, True, True, False, True]
        assert result.statistics["empty"] == 4
        assert not [warning for warning in result.warnings if "count as copies" in warning]
        assert "4 documents have a fingerprint that `ignore_fingerprint` names" in str(
            result.warnings
        )
    out = tmp_path / "out"
    options = [option for value in ignored for option in ("--ignore-fingerprint", value)]
    command = ["dedup", str(path), "--id", "id", "--fingerprint", "hash", "--distance", "2"]
    assert run([*command, *options, "--out", str(out), "--quiet"]) == 0
    clusters = pq.read_table(out / "clusters.parquet").to_pylist()
    assert [row["id"] for row in clusters if not row["kept"]] == ["f"]
    columns = json.loads((out / "run.json").read_text())["columns"]
    assert columns["ignored_fingerprints"] == [ZEROS, ONES]


def test_ignored_fingerprints_apply_to_every_function() -> None:
    options: dict[str, Any] = {
        "id": "id",
        "fingerprint": "hash",
        "distance": 2,
        "ignore_fingerprint": [ZEROS, ONES],
    }
    dropped = nk.dedup(SCANS, empty="drop", **options)
    assert dropped.kept.tolist() == [False, False, False, False, True, False, True]
    assert len(nk.pairs(SCANS, expand_exact=True, **options)) == 1
    checked = nk.check(SCANS, SCANS, **options).pairs["id_a"].to_pylist()
    assert sorted(set(checked)) == ["e", "f", "g"]
    assert nk.split(SCANS, [0.5, 0.5], **options).facts["pairs"] == 1
    against = nk.dedup(SCANS, against=SCANS, only_against=True, **options)
    assert against.kept.tolist() == [True, True, True, True, False, False, False]
    fields = {"fields": ["hash:hamming<=2"], "ignore_fingerprint": [ZEROS, ONES]}
    for accept in ("hash", "text and hash"):
        fields["fields"] = ["hash:hamming<=2", *(["text:jaccard>=0.9"] if " " in accept else [])]
        kept = nk.dedup(SCANS, accept=accept, **fields).kept.tolist()
        assert kept == [True, True, True, True, True, False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ignore_fingerprint": "00"}, "is not a fingerprint of 16 hexadecimal digits"),
        ({"ignore_fingerprint": "z" * 16}, "is not a fingerprint of 16 hexadecimal digits"),
        ({"ignore_fingerprint": ZEROS, "bits": 128}, "of 32 hexadecimal digits"),
        ({"ignore_fingerprint": ZEROS, "fingerprint": None}, "no fingerprints are compared"),
        ({"ignore_fingerprint": ZEROS, "fingerprint": None, "fields": ["text:jaccard>=0.9"]}, "no"),
    ],
)
def test_ignored_fingerprints_must_be_possible(options: dict[str, Any], message: str) -> None:
    given = {"fingerprint": "hash", **options}
    if given["fingerprint"] is not None:
        given["distance"] = 2
    with pytest.raises(UsageError, match=message):
        nk.dedup(SCANS, **given)
