"""The comparison of selected documents of a run with selected documents of a reference.

It is a run of its own over both, one side after the other. Its pairs are between the two sides.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.corpus.columns import carried_column_name
from nearkin.engine.acceptance import text_facts_of
from nearkin.engine.documents import COLUMNS, arrays_of, take_values
from nearkin.engine.options import RunOptions
from nearkin.engine.payload_batches import (
    DividedSource,
    PayloadBatch,
    PayloadSource,
    SourcePart,
)
from nearkin.engine.reference_sides import Side, split_numbers
from nearkin.engine.run import Run
from nearkin.engine.stats import CollapseStats, SketchStats, Stage
from nearkin.engine.token_runs import DocumentTokens, TokenKind
from nearkin.engine.work_folder import WorkFolder
from nearkin.settings.spec import HAMMING
from nearkin.stages.cluster.keep import DEFAULT_ORDER
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Payload

SIDE = "side"
"""The name of the option that limits pairs to those of the run and a reference."""

Result = TypeVar("Result")


def compare_sides(
    run: Run,
    sketched: Run,
    ours: Side,
    theirs: Side,
    bandings: tuple[Banding, ...] | None,
    folder: Path,
) -> Run:
    """Returns a run over the selected documents, whose pairs are those of both sides.

    The documents of the run come first, then those of the reference.
    """
    shutil.rmtree(folder, ignore_errors=True)
    work = WorkFolder.create(folder, {}, durable=False)
    sides = (ours, theirs)
    pairs_run = Run(
        run.corpus,
        run.columns,
        _options_of_pairs(run.options, bandings),
        work,
        run.progress,
        run.resources,
        payloads=_select_payloads(
            (run.payload_source(), sketched.payload_source()),
            (ours.selected, theirs.selected),
        ),
        token_reader=_SelectedTokens(
            (run.read_tokens, sketched.read_tokens), (ours.selected, theirs.selected)
        ).read,
        given_executor=sketched.executor,
    )
    if bandings is not None and pairs_run.options.bands is None:
        # Bands of signs depend on the number of documents. Those by which the documents were
        # selected find the pairs, so that no pair must agree in two layouts.
        pairs_run.bandings = bandings
    with work.stage(Stage.SKETCH) as facts:
        facts.update(_write_documents(work.folder("sketch"), sides, run).to_dict())
    with work.stage(Stage.COLLAPSE) as facts:
        facts.update(_write_scope(work, sides).to_dict())
    pairs_run.candidates()
    pairs_run.verify()
    return pairs_run


def _options_of_pairs(options: RunOptions, bandings: tuple[Banding, ...] | None) -> RunOptions:
    """Returns the options of the run over both sides."""
    options = replace(options, across=SIDE, block_by=None, keep=DEFAULT_ORDER, same=None, url=None)
    if bandings is None or len(bandings) > 1 or options.spec.measure == HAMMING:
        # the bands of fingerprints follow from their distance, so that none can be given
        return options
    return replace(options, bands=bandings[0].bands, rows=bandings[0].rows, tables=1)


def _write_documents(folder: Path, sides: Sequence[Side], run: Run) -> SketchStats:
    """Writes the facts of the selected documents of both sides, one side after the other."""
    keyed = run.sketch_stats.keyed
    key_count = 0 if keyed is None else keyed[0] * (1 + keyed[2])
    options = run.options
    arrays = arrays_of(
        options.spec,
        key_count,
        text_facts=text_facts_of(options.acceptance),
        further=options.further_specs,
    )
    for name, (dtype, _) in arrays.items():
        with (folder / name).open("wb") as file:
            for side in sides:
                for numbers in split_numbers(side.selected):
                    rows = side.documents.read_array(name)[numbers]
                    file.write(np.ascontiguousarray(rows, dtype).data)
    if options.acceptance_columns:
        _write_columns(folder, sides, options.acceptance_columns)
    shingles = sum(int(side.documents.shingles[side.selected].sum()) for side in sides)
    return SketchStats(
        documents=sum(len(side.selected) for side in sides),
        rejected=0,
        shingles=shingles,
        text_bytes=0,
        signature_bytes=(folder / "signatures").stat().st_size,
        empty_bin_rate=0.0,
        completed_slot_rate=0.0,
        keyed=keyed,
    )


def _write_columns(folder: Path, sides: Sequence[Side], names: Sequence[str]) -> None:
    """Writes the columns that an acceptance compares, as the sketch stage writes columns."""
    schema = pa.schema([(carried_column_name(name), pa.large_string()) for name in names])
    (folder / COLUMNS).mkdir()
    path = str(folder / COLUMNS / "0.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for side in sides:
            for numbers in split_numbers(side.selected):
                columns = [take_values(side.documents.carried[name], numbers) for name in names]
                writer.write_batch(pa.record_batch(columns, schema=schema))


def _write_scope(work: WorkFolder, sides: Sequence[Side]) -> CollapseStats:
    """Writes the order, the blocks and the sides of the selected documents.

    The documents of the reference come first in the order, as leaders of hot buckets. No document
    is in an exact group.
    """
    ours, theirs = (len(side.selected) for side in sides)
    order = np.roll(np.arange(ours + theirs, dtype=np.uint32), theirs)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    work.save("order", order)
    work.save("rank", rank)
    work.save("blocks", np.concatenate([side.blocks[side.selected] for side in sides]))
    work.save("sources", np.repeat(np.arange(2, dtype=np.uint64), [ours, theirs]))
    work.save("representative", np.arange(ours + theirs, dtype=np.uint32))
    return CollapseStats(exact=0, empty=0)


def _numbers_in_source(wanted: np.ndarray, selected: np.ndarray, offset: int) -> np.ndarray:
    """Returns the numbers that wanted documents have in their source, ascending, int64.

    Args:
        wanted: Numbers of documents among the selected ones of all sources, sorted, int64 (m,).
        selected: Numbers of the selected documents of the source, ascending, int64.
        offset: Number of selected documents of the sources before.
    """
    low, high = np.searchsorted(wanted, [offset, offset + len(selected)])
    return np.asarray(selected[wanted[low:high] - offset])


class _SelectedPayloads:
    """The payloads of some documents of several sources, numbered one source after the other.

    Args:
        selected: Numbers of the documents of each source, ascending, int64.
    """

    def __init__(self, sources: Sequence[PayloadSource], selected: Sequence[np.ndarray]) -> None:
        self._sources = sources
        self._selected = selected

    def map_batches(
        self, work: Callable[[PayloadBatch], Result], wanted: np.ndarray | None = None
    ) -> Iterator[Result]:
        """Yields work(batch), as described in `PayloadSource`."""
        if wanted is None:
            wanted = np.arange(sum(map(len, self._selected)))
        offset = 0
        for source, selected in zip(self._sources, self._selected, strict=True):
            numbers = _numbers_in_source(wanted, selected, offset)
            if len(numbers):
                yield from source.map_batches(_renumber(work, selected, offset), numbers)
            offset += len(selected)


class _PartOfSource(NamedTuple):
    """A part of one of several sources."""

    source: int
    part: SourcePart
    documents: int
    """The number of selected documents of the part."""


@dataclass(frozen=True)
class _BuildSelected:
    """A task that makes the payloads of a part of one of several sources."""

    tasks: Sequence[Callable[[Any], Iterator[Payload]]]

    def __call__(self, part: _PartOfSource) -> Iterator[Payload]:
        return self.tasks[part.source](part.part)


class _DividedPayloads(_SelectedPayloads):
    """Payloads that other processes can make, see `DividedSource`."""

    def __init__(self, sources: Sequence[DividedSource], selected: Sequence[np.ndarray]) -> None:
        super().__init__(sources, selected)
        self._divided = sources

    @property
    def task(self) -> _BuildSelected:
        """The task of a part, as described in `DividedSource`."""
        return _BuildSelected([source.task for source in self._divided])

    def parts(self, wanted: np.ndarray) -> Iterator[_PartOfSource]:
        """Yields the parts of all sources, as described in `DividedSource`."""
        offset = 0
        for number, selected in enumerate(self._selected):
            first = 0
            for part in self._divided[number].parts(_numbers_in_source(wanted, selected, offset)):
                low, high = np.searchsorted(selected, [first, first + part.documents])
                yield _PartOfSource(number, part, int(high - low))
                first += part.documents
            offset += len(selected)


def _select_payloads(
    sources: Sequence[PayloadSource], selected: Sequence[np.ndarray]
) -> _SelectedPayloads:
    """Returns the payloads of some documents of several sources.

    Args:
        selected: Numbers of the documents of each source, ascending, int64.
    """
    divided = [source for source in sources if isinstance(source, DividedSource)]
    if len(divided) == len(sources):
        return _DividedPayloads(divided, selected)
    return _SelectedPayloads(sources, selected)


class _SelectedTokens:
    """The tokens of some documents of several runs, numbered one run after the other.

    Args:
        selected: Numbers of the documents of each run, ascending, int64.
    """

    def __init__(
        self,
        readers: Sequence[Callable[[TokenKind, np.ndarray], Iterator[DocumentTokens]]],
        selected: Sequence[np.ndarray],
    ) -> None:
        self._readers = readers
        self._selected = selected

    def read(self, kind: TokenKind, wanted: np.ndarray) -> Iterator[DocumentTokens]:
        """Yields the tokens of some documents, in batches.

        Args:
            wanted: Numbers of the documents, sorted, int64 (m,).
        """
        offset = 0
        for read, selected in zip(self._readers, self._selected, strict=True):
            numbers = _numbers_in_source(wanted, selected, offset)
            if len(numbers):
                yield from read(kind, numbers)
            offset += len(selected)


def _renumber(
    work: Callable[[PayloadBatch], Result], selected: np.ndarray, offset: int
) -> Callable[[PayloadBatch], Result]:
    """Returns a function that calls `work` with the numbers of selected documents.

    Args:
        selected: Numbers of the documents in their source, ascending, int64.
    """

    def renumbered(batch: PayloadBatch) -> Result:
        low, high = np.searchsorted(selected, [batch.first, batch.first + batch.documents])
        return work(PayloadBatch(int(low) + offset, int(high - low), batch.payload))

    return renumbered
