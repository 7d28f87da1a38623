"""The condition of `nearkin pairs --accept`."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nearkin.cli import app

ROWS = """\
id,title,text
news,First News,the quick brown fox jumps over the lazy dog by the river
page,A Page,before it the quick brown fox jumps over the lazy dog by the river to sleep
mixed,first news,river the by dog lazy the over jumps fox brown quick the
other,Nothing,one two three four five six
copy,Something,one two three four five six
"""
CONTAINMENT = ["--relation", "containment"]
WITNESS = "containment >= 0.8 and witness >= 6"


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("documents") / "documents.csv"
    path.write_text(ROWS)
    return path


def list_pairs(documents: Path, out: Path, *options: str) -> list[tuple[str, str]]:
    command = ["pairs", str(documents), "--out", str(out), "--quiet", *options]
    assert app.run(command) == 0
    table = pq.read_table(out)
    return list(zip(table["id_a"].to_pylist(), table["id_b"].to_pylist(), strict=True))


def test_pairs_that_fulfil_a_condition_are_written(documents: Path, tmp_path: Path) -> None:
    options = ["--id", "id", "--shingle", "words:1"]
    similar = list_pairs(documents, tmp_path / "similar.parquet", *options, "--accept", WITNESS)
    assert similar == [("news", "page"), ("other", "copy")]
    out = tmp_path / "contained.parquet"
    options += [*CONTAINMENT, "--accept"]
    assert list_pairs(documents, out, *options, WITNESS) == similar
    # a copy is represented by another document if the condition surely holds for copies
    surely = list_pairs(documents, tmp_path / "any.parquet", *options, "containment >= 0.8")
    assert surely == [("news", "page"), ("news", "mixed"), ("mixed", "page")]
    recorded = json.loads(pq.read_schema(out).metadata[b"nearkin.run"])
    assert recorded["identity"]["parameters"]["accept"] == WITNESS


def test_a_saved_run_gives_the_pairs_of_its_inputs(
    documents: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved"
    making = ["dedup", str(documents), "--id", "id", "--shingle", "words:1", "--save-signatures"]
    assert app.run([*making, "--out", str(saved), "--quiet"]) == 0
    options = [*CONTAINMENT, "--accept"]
    listed = list_pairs(saved, tmp_path / "pairs.parquet", *options, WITNESS)
    assert listed == [("news", "page"), ("other", "copy")]
    command = ["pairs", str(saved), "--out", str(tmp_path / "safe.parquet"), *options, "safe"]
    assert app.run(command) == 2
    assert "--accept safe needs the wording of the texts" in capfd.readouterr().err


def test_a_condition_over_fields_is_that_of_dedup(documents: Path, tmp_path: Path) -> None:
    options = ["--id", "id", "--shingle", "chars:3", "--accept", "title or text"]
    options += ["--field", "title:jaccard>=0.9", "--field", "text:jaccard>=0.9"]
    listed = list_pairs(documents, tmp_path / "pairs.parquet", *options)
    assert listed == [("news", "mixed"), ("other", "copy")]


def test_a_finished_file_has_the_condition_of_a_resumed_run(
    documents: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "pairs.parquet"
    command = ["pairs", str(documents), "--out", str(out), "--resume", "--accept"]
    assert app.run([*command, "contained"]) == 0
    assert app.run([*command, "contained"]) == 0
    assert app.run([*command, WITNESS]) == 2
    assert "was made with --accept contained, and this run has --accept" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--accept", "witness >= 30"], "can hold for documents that share no shingle"),
        (["--accept", "safe", "--threshold", "0.5"], "--threshold and --accept safe exclude"),
        (["--accept", "safe", "--verify", "none"], "give --verify exact"),
        (["--accept", "safe", "--expand-exact"], "leave out --expand-exact"),
        (["--accept", "safe", "--measure", "simhash"], "give --measure jaccard"),
        (["--accept", "jaccard >= 0.8 and same(nowhere)"], "has no column 'nowhere'"),
        (["--accept", "containment >= 2"], "containment is from 0 to 1"),
        (["--max-lost", "0.1"], "write it as --accept 'jaccard >= 0.8 and"),
        ([*CONTAINMENT, "--accept", "witness >= 30"], "can hold for documents that share no"),
        ([*CONTAINMENT, "--accept", "safe", "--threshold", "1"], "--accept safe exclude"),
    ],
)
def test_contradictions_write_nothing(
    options: list[str],
    message: str,
    documents: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    command = ["pairs", str(documents), "--out", str(tmp_path / "pairs.parquet"), *options]
    assert app.run(command) == 2
    assert message in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_summary_names_the_option_that_lists_copies(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copies = tmp_path / "copies.csv"
    copies.write_text("text\n" + 3 * "one two three four five\n" + "another text of its own\n")
    out = tmp_path / "pairs.parquet"
    command = ["pairs", str(copies), "--out", str(out)]
    told = f"0 verified pairs in {out}; 2 exact copies are left out; list them with --expand-exact"
    for further in ([], ["--resume"]):
        assert app.run([*command, *further]) == 0
        assert told in capfd.readouterr().err
    assert app.run([*command, "--resume", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["copies_left_out"] == 2
    assert app.run([*command, "--overwrite", "--expand-exact"]) == 0
    assert f"3 verified pairs in {out}\n" in capfd.readouterr().err
    assert app.run([*command, "--overwrite", *CONTAINMENT]) == 0
    assert f"0 verified pairs in {out}; 2 exact copies are left out\n" in capfd.readouterr().err
