"""Tests of the sketch stage."""

import gzip
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Batch, Columns, Corpus
from nearkin.corpus.parts import Part
from nearkin.engine import sketching
from nearkin.engine.options import RunOptions
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent


@pytest.mark.parametrize(
    "options",
    [{"keep": "date desc"}, {"keep": "newest:date"}]
    + [{name: "date"} for name in ("block_by", "across", "source", "split")],
)
def test_corpus_without_documents_may_have_carried_columns(
    options: dict[str, str], tmp_path: Path
) -> None:
    table = pa.table({"text": pa.array([], pa.string()), "date": pa.array([], pa.string())})
    result = nk.dedup(table, **options)
    assert len(result) == 0
    assert result.report_data.sources == ()
    (tmp_path / "in.jsonl").write_text('{"text": null, "date": "2024"}\n')
    assert len(nk.dedup(tmp_path / "in.jsonl", **options)) == 0


def write_files(folder: Path, is_rejected: Callable[[int], bool]) -> Path:
    """Writes files of small row groups, in which some rows are not documents."""
    folder.mkdir()
    for file in range(3):
        rows = range(100 * file, 100 * file + 49)
        texts = [None if is_rejected(row) else f"the words of text {row // 2} here" for row in rows]
        table = pa.table({"text": pa.array(texts, pa.string()), "date": [str(row) for row in rows]})
        pq.write_table(table, folder / f"{file}.parquet", row_group_size=7)
    return folder


REJECTIONS: dict[str, Callable[[int], bool]] = {
    "none": lambda row: False,
    "some": lambda row: row % 10 in (2, 3),
    "all": lambda row: True,
    "whole parts": lambda row: row // 7 % 3 != 1,
    "the last ones": lambda row: row >= 230,
}


@pytest.mark.parametrize("rejected", REJECTIONS)
def test_result_does_not_depend_on_parts_and_workers(
    rejected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_files(tmp_path / "in", REJECTIONS[rejected])
    contents = []
    for part_bytes, workers in ((1 << 30, 1), (1, 1), (1, 3), (500, 2)):
        monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", part_bytes)
        monkeypatch.setattr("nearkin.engine.exact_groups.DOCUMENTS_PER_PART", part_bytes)
        out = tmp_path / f"out-{part_bytes}-{workers}"
        job = Job((str(source),), out, Columns(), RunOptions(workers=workers), save_signatures=True)
        run_dedup(job, Silent())
        names = ("clusters.parquet", "pairs.parquet", "rejected.jsonl")
        files = [out / name for name in names]
        files += sorted(path for path in (out / "signatures").rglob("*") if path.is_file())
        assert len(files) > 5
        contents.append({path.relative_to(out): path.read_bytes() for path in files})
    for other in contents[1:]:
        assert other == contents[0]


def write_compressed_files(folder: Path, is_rejected: Callable[[int], bool]) -> Path:
    """Writes compressed files, in which some rows are not documents."""
    folder.mkdir()
    for file in range(6):
        lines = (
            {"text": None if is_rejected(row) else f"the words of text {row // 2} here"}
            for row in range(50 * file, 50 * file + 50)
        )
        with gzip.open(folder / f"{file}.jsonl.gz", "wt") as compressed:
            compressed.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


@pytest.fixture(scope="module")
def compressed_job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Returns a finished job over compressed files."""
    folder = tmp_path_factory.mktemp("compressed")
    source = write_compressed_files(folder / "in", REJECTIONS["some"])
    job = Job((str(source),), folder / "whole", Columns(), RunOptions(workers=2))
    run_dedup(job, Silent())
    return job


@pytest.mark.parametrize(
    "place",
    ["write_checkpoint", "sync_file", "SketchWriter._place", "SketchWriter._write_segment"],
)
@pytest.mark.parametrize("calls", [1, 3, 5])
def test_parts_of_compressed_files_are_resumed_after_a_kill(
    place: str,
    calls: int,
    compressed_job: Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = compressed_job
    monkeypatch.setattr(sketching, "SEGMENT_SECONDS", 0.0)
    monkeypatch.setattr(sketching, "SEGMENT_BYTES", 500)
    killed = replace(job, out=tmp_path / "out")
    with monkeypatch.context() as interrupted:
        interrupt_call(interrupted, place, calls)
        with pytest.raises(KeyboardInterrupt):
            run_dedup(killed, Silent())
    run_dedup(replace(killed, resume=True), Silent())
    for name in ("clusters.parquet", "pairs.parquet", "rejected.jsonl"):
        assert (killed.out / name).read_bytes() == (job.out / name).read_bytes()


def test_an_interruption_does_not_wait_for_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_compressed_files(tmp_path / "in", REJECTIONS["some"])
    read = Part.read

    def read_endlessly(part: Part, corpus: Corpus, columns: Columns) -> Iterator[Batch]:
        batches = read(part, corpus, columns)
        return batches if part.ranges[0].file == 0 else itertools.cycle(batches)

    monkeypatch.setattr(Part, "read", read_endlessly)
    interrupt_call(monkeypatch, "SketchWriter.add", 1)
    job = Job((str(source),), tmp_path / "out", Columns(), RunOptions(workers=2))
    with pytest.raises(KeyboardInterrupt):
        run_dedup(job, Silent())


def interrupt_call(monkeypatch: pytest.MonkeyPatch, place: str, calls: int) -> None:
    """Interrupts one of the calls of a function of the stage."""
    call = attrgetter(place)(sketching)
    left = [calls]

    def fail(*arguments: object) -> object:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return call(*arguments)

    monkeypatch.setattr(f"nearkin.engine.sketching.{place}", fail)


@pytest.fixture(scope="module")
def parted_job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Returns a finished job over files of small row groups."""
    folder = tmp_path_factory.mktemp("parted")
    source = write_files(folder / "in", REJECTIONS["some"])
    job = Job((str(source),), folder / "whole", Columns(), RunOptions(workers=2))
    run_dedup(job, Silent())
    return job


@pytest.mark.parametrize(
    "place", ["copy_bytes", "_replace_files_with_gaps", "sync_folder", "write_checkpoint"]
)
@pytest.mark.parametrize("calls", [1, 2, 5])
def test_places_of_rejected_rows_are_closed_after_a_kill(
    place: str, calls: int, parted_job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = parted_job
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1)
    killed = replace(job, out=tmp_path / "out")
    with monkeypatch.context() as interrupted:
        interrupt_call(interrupted, place, calls)
        try:
            run_dedup(killed, Silent())
        except KeyboardInterrupt:
            run_dedup(replace(killed, resume=True), Silent())
    for name in ("clusters.parquet", "pairs.parquet", "rejected.jsonl"):
        assert (killed.out / name).read_bytes() == (job.out / name).read_bytes()
