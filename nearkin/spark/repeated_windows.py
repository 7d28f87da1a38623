"""The windows of words that occur twice: tasks find them, and the driver writes them to files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from nearkin.engine.spark.materialized import IntermediateTables
from nearkin.settings.spec import Spec
from nearkin.spark.driver_tables import read_packed
from nearkin.stages.shingle.shingler import Shingler
from nearkin.stages.winnowing.fingerprints import (
    LEAST_WORDS,
    AnchorFilter,
    Buffers,
    collect_anchors,
)
from nearkin.stages.winnowing.tokens import TokenPiece, TokenReader
from nearkin.texts.passages.windows import WindowFiles, Windows, WindowWriter, collect_windows

T = TypeVar("T")
Batches: TypeAlias = Iterator[pa.RecordBatch]
WINDOWS = "number long,token long,start long,end long,hash long,check long"
WINDOW_COLUMNS = [column.split()[0] for column in WINDOWS.split(",")]
MOST_FILTER_WORDS = 1 << 26
"""The largest number of words of the filter of repeated anchors, which each task reads."""
NUMBER_BITS = np.uint64(32)


@dataclass(frozen=True)
class PassageTasks:
    """The functions of tasks that find windows in texts.

    Attributes:
        spec: Spec of the words.
        least: Smallest number of words of a passage.
    """

    spec: Spec
    least: int

    def anchors(self, batches: Batches) -> Batches:
        """Yields the anchors of texts: `anchor`, once for each place."""
        least = self.least
        for _, anchors in self._map_pieces(
            batches, lambda piece, buffers: collect_anchors(piece, least, buffers)
        ):
            yield pa.record_batch([pa.array(anchors.view(np.int64))], ["anchor"])

    def windows(self, twice: np.ndarray) -> Callable[[Batches], Batches]:
        """Returns a function that yields the windows whose anchors may occur twice.

        Args:
            twice: Filter of the anchors that may occur twice, uint64.
        """
        least = self.least

        def collect(piece: TokenPiece, buffers: Buffers) -> Windows:
            return collect_windows(piece, least, twice, buffers)

        def map_batches(batches: Batches) -> Batches:
            for numbers, windows in self._map_pieces(batches, collect):
                columns = [
                    numbers[(windows.places >> NUMBER_BITS).astype(np.int64)],
                    (windows.places & np.uint64(0xFFFFFFFF)).astype(np.int64),
                    windows.spans[:, 0].astype(np.int64),
                    windows.spans[:, 1].astype(np.int64),
                    windows.hashes.view(np.int64),
                    windows.checks.view(np.int64),
                ]
                yield pa.record_batch([pa.array(column) for column in columns], WINDOW_COLUMNS)

        return map_batches

    def _map_pieces(
        self, batches: Batches, work: Callable[[TokenPiece, Buffers], T]
    ) -> Iterator[tuple[np.ndarray, T]]:
        """Yields the numbers of the documents of a batch, and work(piece, buffers) of pieces."""
        reader = TokenReader(Shingler(self.spec), self.least)
        buffers = Buffers()
        for batch in batches:
            numbers = batch.column(0).to_numpy()
            for piece in reader.read_pieces(batch.column(1).cast(pa.large_string()), 0):
                yield numbers, work(piece, buffers)


class RepeatedWindows(NamedTuple):
    """The windows that occur twice, in files of the driver.

    Their documents are numbered from 0 among those that have such a window, in the same order.
    """

    files: WindowFiles
    numbers: np.ndarray
    """int64 (n,): The number that each of these documents has among all, ascending."""


def collect_repeated_windows(
    spark: SparkSession,
    tables: IntermediateTables,
    documents: DataFrame,
    tasks: PassageTasks,
    folder: Path,
) -> RepeatedWindows:
    """Writes the windows that occur twice to files of the driver, in the order of their places."""
    texts = documents.select("number", "text")
    anchors = texts.mapInArrow(tasks.anchors, "anchor long").groupBy("anchor").count()
    repeated, counts = tables.counted(anchors.where("count > 1").select("anchor"), "anchors")
    words = max(LEAST_WORDS, min(MOST_FILTER_WORDS, counts["rows"]))
    anchors_twice = AnchorFilter(1 << (words - 1).bit_length())
    for (hashes,) in read_packed(repeated):
        # an anchor that is added twice occurs twice
        anchors_twice.add(hashes.view(np.uint64))
        anchors_twice.add(hashes.view(np.uint64))
    twice = spark.sparkContext.broadcast(anchors_twice.twice)

    def collect(batches: Batches) -> Batches:
        yield from tasks.windows(twice.value)(batches)

    windows = tables.keep(texts.mapInArrow(collect, WINDOWS), "windows")
    contents = windows.groupBy("hash", "check").count().where("count > 1").select("hash", "check")
    kept = windows.join(contents, ["hash", "check"], "left_semi").select(*WINDOW_COLUMNS)
    numbers = [np.empty(0, np.int64)]
    documents_before = 0
    last = -1
    with WindowWriter(folder) as writer:
        for number, token, start, end, hashes, checks in read_packed(
            kept.orderBy("number", "token")
        ):
            begins = np.diff(number, prepend=last) != 0
            positions = documents_before + np.cumsum(begins) - 1
            numbers.append(number[begins])
            documents_before += int(begins.sum())
            last = int(number[-1])
            writer.add(
                Windows(
                    hashes=hashes.view(np.uint64),
                    checks=checks.view(np.uint64),
                    places=positions.astype(np.uint64) << NUMBER_BITS | token.astype(np.uint64),
                    spans=np.stack([start, end], axis=1).astype(np.uint32),
                )
            )
    twice.unpersist()
    return RepeatedWindows(WindowFiles(folder, writer.written), np.concatenate(numbers))
