"""All measures in `nearkin dedup`, `nearkin lab sketch` and their options."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.cli.app import run
from nearkin.stages.sketch.signature_file import read_signatures

NEAR = 40


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents with a text and a vector. The first ones have similar copies."""
    rng = np.random.default_rng(8)
    texts = [" ".join(f"w{x}" for x in rng.integers(0, 3000, 90)) for _ in range(300)]
    vectors = rng.normal(size=(300, 16))
    for i in range(NEAR):
        words = texts[i].split()
        words[i] = "edited"
        texts.append(" ".join(words))
        vectors = np.vstack([vectors, vectors[i] + rng.normal(scale=0.02, size=16)])
    rows = [None if i == 5 else [*map(float, vector)] for i, vector in enumerate(vectors)]
    rows[6] = rows[6][:15]  # type: ignore[index]
    rows[7] = [0.0] * 16
    folder = tmp_path_factory.mktemp("measures")
    table = pa.table(
        {
            "id": [f"d{i:03}" for i in range(len(texts))],
            "text": texts,
            "v": pa.array(rows, pa.list_(pa.float32())),
        }
    )
    pq.write_table(table, folder / "docs.parquet")
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return folder


def summary(arguments: list[str | Path], capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert run([*map(str, arguments), "--json"]) == 0, capfd.readouterr().err
    output: dict[str, object] = json.loads(capfd.readouterr().out)
    return output


OPTIONS = {
    "simhash by cosine": ["--measure", "simhash", "--threshold", "0.8"],
    "simhash by distance": ["--measure", "simhash", "--distance", "12"],
    "simhash by tf-idf": [
        "--measure",
        "simhash",
        "--weights",
        "tfidf",
        "--k",
        "128",
        "--threshold",
        "0.8",
    ],
    "weighted": ["--measure", "weighted-jaccard", "--threshold", "0.8"],
    "idf": ["--measure", "idf-jaccard", "--threshold", "0.8"],
    "one bit": ["--slot-bits", "1", "--threshold", "0.8"],
    "another hash": ["--base-hash", "murmur3", "--threshold", "0.8"],
    "tables": ["--tables", "2", "--bands", "8", "--rows", "6", "--threshold", "0.8"],
}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_each_text_measure_finds_near_duplicates(
    name: str, corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run_summary = summary(
        ["dedup", corpus / "docs.parquet", "--id", "id", *OPTIONS[name], "--out", out], capfd
    )
    counts = run_summary["counts"]
    assert isinstance(counts, dict)
    assert NEAR - 6 <= counts["removed_near"] <= NEAR
    assert counts["kept"] + counts["removed"] == 340
    pairs = pq.read_table(out / "pairs.parquet")
    assert ("distance" in pairs.column_names) == (name == "simhash by distance")
    assert "<svg" in (out / "report.html").read_text("utf-8")


@pytest.mark.parametrize("file", ["docs.parquet", "docs.jsonl"])
@pytest.mark.parametrize("asked", [["--threshold", "0.98"], ["--distance", "60"]])
def test_vectors_are_upserted_and_queried(
    file: str, asked: list[str], corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    run_summary = summary(
        ["dedup", corpus / file, "--id", "id", "--vector", "v", *asked, "--out", out], capfd
    )
    counts = run_summary["counts"]
    assert isinstance(counts, dict)
    assert counts["removed_near"] == NEAR - 3
    assert counts["rejected"] == 3
    reasons = [
        json.loads(line)["reason"] for line in (out / "rejected.jsonl").read_text().splitlines()
    ]
    assert sorted(reasons) == [
        "v has 15 numbers instead of 16",
        "v is a zero vector, which has no direction",
        "v is null",
    ]


def test_document_frequencies_can_be_reused(
    corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    common = ["--id", "id", *OPTIONS["simhash by tf-idf"]]
    first = summary(["dedup", corpus / "docs.parquet", *common, "--out", tmp_path / "a"], capfd)
    table = tmp_path / "a" / "frequencies.arrow"
    again = summary(
        ["dedup", corpus / "docs.jsonl", *common, "--frequencies", table, "--out", tmp_path / "b"],
        capfd,
    )
    assert first["spec_fingerprint"] == again["spec_fingerprint"]
    clusters = [pq.read_table(tmp_path / name / "clusters.parquet") for name in "ab"]
    assert clusters[0].equals(clusters[1])
    file = tmp_path / "s.arrow"
    options = ["--measure", "simhash", "--weights", "tfidf", "--k", "128"]
    summary(["lab", "sketch", corpus / "docs.parquet", *options, "--out", file], capfd)
    assert read_signatures(file).spec.frequencies == first["spec"]["frequencies"]  # type: ignore[index]
    assert Path(f"{file}.frequencies.arrow").exists()


def test_idf_jaccard_is_explained_and_audited_with_frequencies_of_run(
    corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["--id", "id", *OPTIONS["idf"], "--shingle", "words:2"]
    summary(["dedup", corpus / "docs.parquet", *arguments, "--out", out], capfd)
    pair = pq.read_table(out / "pairs.parquet").to_pylist()[0]
    explained = summary(["explain", pair["id_a"], pair["id_b"], "--run", out], capfd)
    assert explained["similarity"] == pair["similarity"]
    assert explained["measure"] == "idf-jaccard"
    audited = summary(["audit", out], capfd)
    assert audited["precision"]["hits"] == audited["precision"]["total"] > 0  # type: ignore[index]
    assert run(["explain", "a b c", "a b d", "--measure", "idf-jaccard"]) == 2
    assert "needs document frequencies" in capfd.readouterr().err


def test_tune_observes_similarities_of_idf_jaccard(
    corpus: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--measure", "idf-jaccard", "--threshold", "0.8"]
    tuned = summary(["tune", corpus / "docs.parquet", *options], capfd)
    assert tuned["measure"] == "idf-jaccard"
    assert tuned["points"]
    general = summary(["tune", *options], capfd)
    assert general["points"]


@pytest.mark.parametrize("name", ["simhash by cosine", "simhash by tf-idf", "weighted", "idf"])
def test_saved_run_is_banded_again(
    name: str, corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    common = ["--id", "id", *OPTIONS[name], "--save-signatures"]
    summary(["dedup", corpus / "docs.parquet", *common, "--out", tmp_path / "a"], capfd)
    run_summary = summary(
        ["dedup", tmp_path / "a", "--threshold", "0.99", "--out", tmp_path / "b"], capfd
    )
    assert run_summary["counts"]["removed_near"] < NEAR - 6  # type: ignore[index]


def test_saved_run_of_truncated_slots_keeps_its_bands(
    corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    banded = ["--bands", "20", "--rows", "5", "--threshold", "0.8"]
    common = ["--id", "id", "--slot-bits", "2", *banded, "--save-signatures"]
    first = summary(["dedup", corpus / "docs.parquet", *common, "--out", tmp_path / "a"], capfd)
    again = summary(["dedup", tmp_path / "a", *banded, "--out", tmp_path / "b"], capfd)
    assert first["counts"] == again["counts"]
    assert (
        run(
            [
                "dedup",
                str(tmp_path / "a"),
                "--bands",
                "10",
                "--rows",
                "5",
                "--out",
                str(tmp_path / "c"),
            ]
        )
        == 2
    )
    assert (
        "their band keys were built for bands, rows, probes = [20, 5, 0]" in capfd.readouterr().err
    )


WRONG = [
    (["--measure", "cosine"], "name their column with --vector"),
    (["--vector", "v", "--text", "text"], "--text text and --vector v exclude each other"),
    (["--vector", "text"], "not lists of numbers"),
    (["--vector", "v", "--measure", "jaccard"], "does not go with the unit vector"),
    (["--distance", "3"], "distance 3 is only for measures simhash and cosine"),
    (
        ["--measure", "simhash", "--distance", "99"],
        "distance 99 is out of range; it must be 0 to 63",
    ),
    (["--measure", "simhash", "--slot-bits", "8"], "--slot-bits 8 is not one of 1"),
    (["--slot-bits", "3"], "--slot-bits 3 is not one of"),
    (["--weights", "tfidf"], "requires --measure simhash"),
    (["--measure", "simhash", "--weights", "given"], "--weights given is not one of tf, tfidf"),
    (
        ["--measure", "simhash", "--frequencies", "x.arrow"],
        "--frequencies has no effect with measure simhash; leave it out, or give "
        "--measure idf-jaccard or --weights tfidf",
    ),
    (["--key-file", "missing"], "cannot be read"),
    (["--key-file", "x", "--base-hash", "fnv1a"], "exclude each other"),
    (["--base-hash", "md5"], "--base-hash md5 is not one of"),
    (["--base-hash", "siphash"], "siphash is keyed"),
    (["--tables", "0"], "--tables 0 is out of range; it must be at least 1"),
    (["--k", "100", "--slot-bits", "1"], "--k 100 is not a multiple of 8"),
]


@pytest.mark.parametrize(
    ("options", "message"), WRONG, ids=[" ".join(options) for options, _ in WRONG]
)
def test_wrong_usage(
    options: list[str],
    message: str,
    corpus: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert (
        run(["dedup", str(corpus / "docs.parquet"), *options, "--out", str(tmp_path / "out")]) == 2
    )
    errors = capfd.readouterr().err
    assert message in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()


def test_vectors_are_not_read_from_delimited_text(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("v\n1\n")
    assert (
        run(["dedup", str(tmp_path / "a.csv"), "--vector", "v", "--out", str(tmp_path / "out")])
        == 2
    )
    assert "cannot hold vectors" in capfd.readouterr().err
