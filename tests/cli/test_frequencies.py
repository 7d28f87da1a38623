"""`nearkin lab frequencies`, and the use of its file by other commands."""

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.settings.spec import Spec

NAMES = [
    *(f"acme {colour} camera mx{model}" for model in range(30) for colour in ("black", "silver")),
    *(f"camera mx{model}" for model in range(10)),
]


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """Returns a file of product names."""
    path = tmp_path / "products.jsonl"
    path.write_text("".join(json.dumps({"name": name}) + "\n" for name in NAMES))
    return path


def output_of(arguments: list[str | Path], capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert run([*map(str, arguments), "--json"]) == 0, capfd.readouterr().err
    output: dict[str, object] = json.loads(capfd.readouterr().out)
    return output


def message_of(arguments: list[str | Path], capfd: pytest.CaptureFixture[str]) -> str:
    assert run([*map(str, arguments)]) == 2
    return capfd.readouterr().err


def test_file_has_number_of_documents_of_each_repeated_shingle(
    products: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "idf.arrow"
    arguments = [
        "lab",
        "frequencies",
        products,
        "--text",
        "name",
        "--shingle",
        "words:1",
        "--out",
        path,
    ]
    counted = output_of(arguments, capfd)
    expected = Counter(word for name in NAMES for word in set(name.split()))
    repeated = [count for count in expected.values() if count > 1]
    assert (counted["documents"], counted["shingles"]) == (len(NAMES), len(repeated))
    frequencies = nk.signatures.DocumentFrequencies.read(path, Spec(n=1))
    assert Counter(frequencies.counts.tolist()) == Counter(repeated)
    nk.frequencies({"text": NAMES}, spec=Spec(n=1)).write(tmp_path / "library.arrow", Spec(n=1))
    assert path.read_bytes() == (tmp_path / "library.arrow").read_bytes()


def test_summary_says_how_many_shingles_are_in_how_many_documents(
    products: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "idf.arrow"
    command = [
        "lab",
        "frequencies",
        products,
        "--text",
        "name",
        "--shingle",
        "words:1",
        "--out",
        path,
    ]
    assert run([*map(str, command)]) == 0
    words = Counter(word for name in NAMES for word in set(name.split()))
    shared = sum(count > 1 for count in words.values())
    summary = f"lists {shared} shingles that two or more of {len(NAMES)} documents contain"
    assert summary in capfd.readouterr().err


def test_file_gives_dedup_the_result_of_counting(
    products: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "idf.arrow"
    common = ["--text", "name", "--shingle", "words:1"]
    output_of(["lab", "frequencies", products, *common, "--out", path], capfd)
    dedup = ["dedup", products, *common, "--measure", "idf-jaccard", "--threshold", "0.6"]
    dedup += ["--max-removed", "0.9"]
    counted = output_of([*dedup, "--out", tmp_path / "a"], capfd)
    given = output_of([*dedup, "--frequencies", path, "--out", tmp_path / "b"], capfd)
    assert given["spec_fingerprint"] == counted["spec_fingerprint"]
    assert (tmp_path / "a" / "frequencies.arrow").read_bytes() == path.read_bytes()
    clusters = [pq.read_table(tmp_path / name / "clusters.parquet") for name in "ab"]
    assert clusters[0].equals(clusters[1])
    assert counted["counts"]["removed_near"] > 0  # type: ignore[index]


def test_only_a_table_of_shingles_is_replaced(
    products: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "idf.arrow"
    arguments = ["lab", "frequencies", products, "--text", "name", "--out", path]
    path.write_text("something else")
    assert "a table of shingles" in message_of([*arguments, "--overwrite"], capfd)
    path.unlink()
    output_of(arguments, capfd)
    assert str(path) in message_of(arguments, capfd)
    output_of([*arguments, "--overwrite"], capfd)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["idf.arrow", "products.jsonl"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--text", "title"], "title"),
        (["--vector", "name"], "vectors have no shingles to count"),
        (["--text", "name", "--shingle", "lines:2"], "invalid shingle"),
    ],
)
def test_invalid_request_writes_nothing(
    options: list[str],
    expected: str,
    products: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    arguments = ["lab", "frequencies", products, *options, "--out", tmp_path / "idf.arrow"]
    assert expected in message_of(arguments, capfd)
    assert [entry.name for entry in tmp_path.iterdir()] == ["products.jsonl"]


def test_frequencies_of_other_shingles_are_refused(
    products: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "idf.arrow"
    output_of(["lab", "frequencies", products, "--text", "name", "--out", path], capfd)
    dedup = ["dedup", products, "--text", "name", "--measure", "idf-jaccard"]
    dedup += ["--shingle", "words:1", "--frequencies", path, "--out", tmp_path / "out"]
    assert "frequencies of other shingles" in message_of(dedup, capfd)
    assert not (tmp_path / "out").exists()


def test_too_little_memory_is_an_error_and_writes_nothing(
    products: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "counts.arrow"
    command = ["lab", "frequencies", products, "--text", "name", "--memory", "0", "--out", out]
    assert "--memory 0 is too small" in message_of(command, capfd)
    assert not out.exists()


def test_file_without_a_document_has_no_frequencies(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "counts.arrow"
    (tmp_path / "bad.jsonl").write_text('{"name": 1\nno JSON\n')
    command = [
        "lab",
        "frequencies",
        str(tmp_path / "bad.jsonl"),
        "--text",
        "name",
        "--out",
        str(out),
    ]
    assert run(command) == 3
    assert "nothing was written" in capfd.readouterr().err
    assert not out.exists()
