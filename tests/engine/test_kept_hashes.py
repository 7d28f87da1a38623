"""Tests of the shingle hashes that a run keeps of its first reading."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Batch, Columns, FileCorpus, TableCorpus
from nearkin.corpus.places import RowRange
from nearkin.engine import kept_hashes, sketching
from nearkin.engine.containment import find_contained
from nearkin.engine.kept_hashes import HashCollector, KeptHashes
from nearkin.engine.options import RunOptions
from nearkin.engine.payload_batches import CorpusPayloads, PayloadBatch
from nearkin.engine.run import Run
from nearkin.engine.work_folder import KEPT_HASHES, WorkFolder
from nearkin.runtime.progress import Silent
from nearkin.settings.choices import Verify
from nearkin.stages.measures import Payload, measure_of
from nearkin.stages.measures.compared_sets import COMPARED_BITS, payload_builder_for_run
from nearkin.stages.measures.jaccard import Jaccard
from nearkin.stages.shingle import Shingler, Shingles
from nearkin.stages.verify.jaccard import SetBuilder

SPEC = nk.Spec()


class DiskUsage(NamedTuple):
    """The value of shutil.disk_usage."""

    total: int
    used: int
    free: int


class WholeSets:
    """A builder of the sets of two hashes that differ in a dropped bit, none, and two others."""

    hashes = np.array([5 << 16, (5 << 16) + 1, 6 << 16, 2**64 - 1], np.uint64)

    def build(self, documents: pa.Array) -> Payload:
        return Payload(np.array([2, 0, 2]), (self.hashes,))


def texts_of(documents: int) -> list[str]:
    """Returns texts of 0 to 900 words, a third of them near-duplicates of others."""
    rng = np.random.default_rng(7)
    words = np.array([f"word{i}" for i in range(3_000)])
    texts: list[str] = []
    for number in range(documents):
        if number % 3 == 2:
            texts.append(texts[-1] + " and one more")
        else:
            texts.append(" ".join(rng.choice(words, rng.integers(0, 60) ** 2 // 4)))
    return texts


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return texts_of(1_200)


@pytest.fixture(scope="module")
def corpus_path(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kept-hashes") / "documents.parquet"
    pq.write_table(pa.table({"text": texts}), path)
    return path


def keep(texts: list[str], folder: Path, memory: int) -> tuple[KeptHashes, np.ndarray]:
    """Keeps the hashes of texts, in batches of 100."""
    kept = KeptHashes(folder, memory, workers=2)
    sketcher = measure_of(SPEC).sketcher()
    shingles = []
    for first in range(0, len(texts), 100):
        collector = HashCollector()
        documents = pa.array(texts[first : first + 100], pa.large_string())
        shingles.append(sketcher.sketch(documents, collector).shingles)
        kept.append(first, [kept.store(collector.slices)])
    return kept, np.concatenate(shingles)


def expected_sets(texts: list[str]) -> list[list[int]]:
    """Returns the distinct truncated hashes of each text, by whole hashes and Python sets."""
    sets = SetBuilder(Shingler(SPEC)).build(pa.array(texts, pa.large_string()))
    parts = np.split(sets.hashes, np.cumsum(sets.sizes)[:-1])
    return [sorted({value >> 16 << 16 for value in part.tolist()}) for part in parts]


def collect(batches: Iterator[PayloadBatch]) -> list[list[int]]:
    sets = []
    for batch in batches:
        ends = np.cumsum(batch.payload.sizes)
        sets += [part.tolist() for part in np.split(batch.payload.columns[0], ends[:-1])]
    return sets


@pytest.mark.parametrize("memory", [10**9, 300_000, 0], ids=["memory", "both", "file"])
def test_kept_sets_are_those_of_the_texts(texts: list[str], memory: int, tmp_path: Path) -> None:
    kept, shingles = keep(texts, tmp_path / "kept", memory)
    assert kept.covers(len(texts))
    assert not kept.covers(len(texts) - 1)
    assert (kept.bytes_on_disk > 0) == (memory < 10**9)
    assert (tmp_path / "kept").exists() == (memory < 10**9)
    source = kept.source(shingles)
    expected = expected_sets(texts)
    assert collect(source.map_batches(lambda batch: batch)) == expected
    rng = np.random.default_rng(3)
    for count in (1, 17, 700):
        wanted = np.sort(rng.choice(len(texts), count, replace=False))
        some = list(source.map_batches(lambda batch: batch, wanted))
        assert sum(batch.documents for batch in some) == len(texts)
        assert [one for one in collect(iter(some)) if one] == [
            expected[document] for document in wanted if expected[document]
        ]
    kept.release()
    assert not (tmp_path / "kept").exists()
    assert not kept.covers(len(texts))


def test_reading_again_gives_the_sets_of_kept_hashes(texts: list[str], tmp_path: Path) -> None:
    kept, shingles = keep(texts, tmp_path / "kept", 100_000)
    table = TableCorpus(pa.table({"text": texts}))
    again = CorpusPayloads(
        corpus=table,
        columns=Columns(),
        measure=measure_of(SPEC),
        workers=2,
        files=np.zeros(len(texts), np.int32),
        rows=np.arange(len(texts)),
    )
    wanted = np.arange(0, len(texts), 7)
    sources = (again, kept.source(shingles))
    columns = []
    for source in sources:
        payloads = [batch.payload for batch in source.map_batches(lambda batch: batch, wanted)]
        columns.append(
            (
                np.concatenate([payload.sizes for payload in payloads]).tolist(),
                np.concatenate([payload.columns[0] for payload in payloads]).tolist(),
            )
        )
    assert columns[0] == columns[1]


def test_compared_hashes_have_48_bits_on_every_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole hashes that differ in a dropped bit only count as one."""
    assert COMPARED_BITS == 48
    monkeypatch.setattr(Jaccard, "payload_builder", lambda _: WholeSets())
    truncated = payload_builder_for_run(measure_of(SPEC)).build(pa.array([]))
    assert truncated.sizes.tolist() == [1, 0, 2]
    assert truncated.columns[0].tolist() == [5 << 16, 6 << 16, 2**64 - 2**16]
    collector = HashCollector()
    collector(Shingles(WholeSets.hashes, np.array([0, 2, 2, 4])))
    kept = KeptHashes(Path("unused"), 10**6, workers=1)
    kept.append(0, [kept.store(collector.slices)])
    (batch,) = kept.source(np.array([2, 0, 2], np.uint32)).map_batches(lambda batch: batch)
    assert batch.payload.sizes.tolist() == truncated.sizes.tolist()
    assert batch.payload.columns[0].tolist() == truncated.columns[0].tolist()


def test_hashes_of_a_resumed_reading_are_released(texts: list[str], tmp_path: Path) -> None:
    """Those of the documents before the checkpoint are missing."""
    kept = KeptHashes(tmp_path / "kept", 0, workers=1)
    collector = HashCollector()
    measure_of(SPEC).sketcher().sketch(pa.array(texts[:100], pa.large_string()), collector)
    kept.append(100, [kept.store(collector.slices)])
    assert not kept.is_open
    assert not kept.covers(200)


def test_a_file_of_another_process_is_replaced(texts: list[str], tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "hashes").write_bytes(b"left by a killed process")
    kept, shingles = keep(texts[:300], tmp_path / "kept", 0)
    assert collect(kept.source(shingles).map_batches(lambda batch: batch)) == expected_sets(
        texts[:300]
    )


def test_hashes_take_at_most_half_of_the_free_disk(
    texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = keep(texts, tmp_path / "whole", 0)
    free = 2 * whole.bytes_on_disk
    monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(free, 0, free))
    kept, _ = keep(texts, tmp_path / "enough", 0)
    assert kept.covers(len(texts))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(free, 0, free // 4))
    kept, _ = keep(texts, tmp_path / "full", 0)
    assert not kept.is_open
    assert not (tmp_path / "full").exists()


def test_hashes_that_cannot_be_written_are_released(texts: list[str], tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file in the place of the folder")
    kept, _ = keep(texts[:200], tmp_path / "kept", 0)
    assert not kept.is_open
    assert (tmp_path / "kept").is_file()


@pytest.mark.parametrize(
    ("spec", "verify", "is_kept"),
    [
        (nk.Spec(), Verify.EXACT, True),
        (nk.Spec(slot_bits=4), Verify.EXACT, True),
        (nk.Spec(stem="english"), Verify.EXACT, True),
        (nk.Spec(), Verify.ESTIMATE, False),
        (nk.Spec(), Verify.NONE, False),
        (nk.Spec(unit="chars", n=5), Verify.EXACT, False),
        (nk.Spec(measure="weighted-jaccard"), Verify.EXACT, False),
        (nk.Spec(measure="simhash", k=64), Verify.EXACT, False),
    ],
)
def test_hashes_are_kept_if_sets_of_words_are_compared(
    spec: nk.Spec, verify: Verify, is_kept: bool, tmp_path: Path
) -> None:
    run = Run(
        TableCorpus(pa.table({"text": ["a"]})),
        Columns(),
        RunOptions(spec=spec, verify=verify),
        WorkFolder.create(tmp_path / "work", {}),
        Silent(),
    )
    assert (run.kept_hashes is not None) == is_kept


class ReadingCounter(FileCorpus):
    """A corpus of files in batches of 100 documents that counts how often it is read."""

    readings = 0

    def batches_of(
        self, columns: Columns, ranges: Iterable[RowRange], first: int = 0
    ) -> Iterator[Batch]:
        self.readings += 1
        for batch in super().batches_of(columns, ranges, first):
            for low in range(0, len(batch.rows), 100):
                high = min(low + 100, len(batch.rows))
                is_last = high == len(batch.rows)
                yield Batch(
                    first=batch.first + low,
                    files=batch.files[low:high],
                    rows=batch.rows[low:high],
                    documents=batch.documents.slice(low, high - low),
                    rejected=batch.rejected if is_last else (),
                    next=batch.next if is_last else (0, int(batch.rows[high])),
                )

    def batches_at(
        self, columns: Columns, places: np.ndarray, start: tuple[int, int] = (0, 0), first: int = 0
    ) -> Iterator[Batch]:
        self.readings += 1
        yield from super().batches_at(columns, places, start, first)


def open_run(path: Path, work: Path, threshold: float = 0.8, banded: bool = True) -> Run:
    options = RunOptions(
        spec=SPEC,
        threshold=threshold,
        workers=2,
        bands=16 if banded else None,
        rows=4 if banded else None,
    )
    corpus = ReadingCounter(FileCorpus.open([str(path)]).files)
    return Run(corpus, Columns(), options, WorkFolder.create(work, {}), Silent())


def scored_of(run: Run) -> list[list[float]]:
    scored = run.scored()
    return [np.asarray(column).tolist() for column in scored]


@pytest.mark.parametrize("threshold", [0.6, 0.8])
@pytest.mark.parametrize("banded", [True, False])
def test_result_does_not_depend_on_where_hashes_are_kept(
    corpus_path: Path,
    threshold: float,
    banded: bool,
    tmp_path: Path,
) -> None:
    """Compares hashes in memory, in a file, and nowhere: pairs, clusters and payload files."""
    outcomes = []
    readings = []
    for place in ("memory", "file", "nowhere"):
        run = open_run(corpus_path, tmp_path / place, threshold=threshold, banded=banded)
        assert run.kept_hashes is not None
        if place == "file":
            run.kept_hashes._memory = 0
        if place == "nowhere":
            run.kept_hashes.release()
        run.to_clusters()
        assert not (run.work.path / KEPT_HASHES).exists()
        payloads = (run.work.path / "payloads-0").read_bytes()
        outcomes.append((scored_of(run), run.clustering().leader.tolist(), payloads))
        assert isinstance(run.corpus, ReadingCounter)
        readings.append(run.corpus.readings)
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert len(outcomes[0][0][0]) > 300
    assert readings == [1, 1, 2]


@pytest.mark.parametrize("memory", [10**9, 0])
def test_contained_documents_are_found_in_one_reading(
    corpus_path: Path, memory: int, tmp_path: Path
) -> None:
    outcomes = []
    for place in ("kept", "nowhere"):
        run = open_run(corpus_path, tmp_path / place, threshold=0.9)
        assert run.kept_hashes is not None
        run.kept_hashes._memory = memory
        if place == "nowhere":
            run.kept_hashes.release()
        run.to_exact_groups()
        contained = find_contained(run)
        outcomes.append([np.asarray(column).tolist() for column in contained])
        assert isinstance(run.corpus, ReadingCounter)
        assert (run.corpus.readings == 1) == (place == "kept")
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][0]) > 300


def test_a_run_resumed_after_a_checkpoint_reads_the_texts_again(
    corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = open_run(corpus_path, tmp_path / "whole")
    expected.to_pairs()

    monkeypatch.setattr(sketching, "SEGMENT_SECONDS", 0.0)
    interrupted = open_run(corpus_path, tmp_path / "work")
    assert interrupted.kept_hashes is not None
    interrupted.kept_hashes._memory = 0
    append = interrupted.kept_hashes.append

    def append_few(first: int, batches: Sequence[kept_hashes.StoredHashes]) -> None:
        append(first, batches)
        if first > 300:
            raise KeyboardInterrupt

    monkeypatch.setattr(interrupted.kept_hashes, "append", append_few)
    with pytest.raises(KeyboardInterrupt):
        interrupted.to_pairs()
    assert (tmp_path / "work" / KEPT_HASHES / "hashes").stat().st_size > 0

    resumed = replace_work(interrupted, WorkFolder.resume(tmp_path / "work"))
    resumed.to_pairs()
    assert scored_of(resumed) == scored_of(expected)
    assert not (tmp_path / "work" / KEPT_HASHES).exists()


def replace_work(run: Run, work: WorkFolder) -> Run:
    return Run(run.corpus, run.columns, run.options, work, run.progress)
