"""Near-duplicates between two inputs, such as a training and a test set."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from nearkin.corpus import FileCorpus
from nearkin.corpus.columns import ID
from nearkin.corpus.file_names import format_path
from nearkin.corpus.ids import make_position_ids
from nearkin.corpus.input_file import identify_file
from nearkin.corpus.inputs import Selection
from nearkin.engine.documents import Documents, read_columns, take_values
from nearkin.engine.missing_pairs import estimate_missing_pairs
from nearkin.engine.options import BETWEEN_INPUTS, RunOptions
from nearkin.engine.result_tables import pairs_schema, rows_of_batch
from nearkin.engine.run import Run
from nearkin.errors import UsageError
from nearkin.reports.run_warnings import warn_of_run
from nearkin.runs.pairs import with_pair_budget
from nearkin.runs.results import CheckResult, ResultTable
from nearkin.runtime.setting_names import name_setting
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, unpack_pairs


class TwoInputs(Protocol):
    """The two inputs of a run."""

    def are_second(self, documents: Documents) -> np.ndarray:
        """Returns which documents are of the second input, bool (n,)."""

    def own_ids(self, documents: Documents) -> pa.ChunkedArray:
        """Returns the ids that documents without a column of ids have, large_string (n,)."""


@dataclass(frozen=True)
class FilesOfInputs:
    """Two inputs of files.

    Attributes:
        is_second: Whether each file is of the second input, bool (files,).
    """

    is_second: np.ndarray

    @classmethod
    def find(
        cls,
        corpus: FileCorpus,
        first: Sequence[str],
        second: Sequence[str],
        selection: Selection | None,
    ) -> "FilesOfInputs":
        """Returns the input of each file of a corpus."""
        of_first = {file.path for file in FileCorpus.open(first, selection=selection).files}
        of_second = {file.path for file in FileCorpus.open(second, selection=selection).files}
        targets = {identify_file(path) for path in of_first}
        common = sorted(path for path in of_second if identify_file(path) in targets)
        if common:
            raise UsageError(
                f"{format_path(common[0])} is in both inputs, so that each of its documents would "
                "be a near-duplicate of itself; give two inputs without common files"
            )
        return cls(np.array([file.path in of_second for file in corpus.files], bool))

    def are_second(self, documents: Documents) -> np.ndarray:
        """Returns which documents are of the second input, bool (n,)."""
        return np.asarray(self.is_second[np.asarray(documents.files)])

    def own_ids(self, documents: Documents) -> pa.ChunkedArray:
        """Returns the ids of paths and rows, large_string (n,)."""
        return documents.ids


@dataclass(frozen=True)
class RowsOfInputs:
    """Two inputs of rows, one after the other in one table.

    Attributes:
        rows_of_first: Number of rows of the first input.
    """

    rows_of_first: int

    def are_second(self, documents: Documents) -> np.ndarray:
        """Returns which documents are of the second input, bool (n,)."""
        return np.asarray(np.asarray(documents.rows) >= self.rows_of_first)

    def own_ids(self, documents: Documents) -> pa.ChunkedArray:
        """Returns the row of each document in its own input, large_string (n,)."""
        rows = np.asarray(documents.rows)
        rows = np.where(rows >= self.rows_of_first, rows - self.rows_of_first, rows)
        return pa.chunked_array([make_position_ids(np.zeros(len(rows), np.int32), rows, [""])])


def require_checkable(options: RunOptions) -> RunOptions:
    """Returns the options of a check, after requiring that they do not contradict it."""
    if options.across is not None:
        raise UsageError(
            f"{name_setting('across', options.across)} has no effect on a check, which compares "
            "its two inputs; leave it out"
        )
    by_texts = "a check compares texts; leave it out"
    one_column = "a check compares one column; leave them out, and name one column"
    options.require_defaults("a check", {"same": by_texts, "url": by_texts, "fields": one_column})
    if options.acceptance is not None:
        raise UsageError(
            f"a condition ({options.acceptance}) cannot be combined with a check, which counts all "
            f"near-duplicates; leave out {name_setting('accept')} and {name_setting('max_lost')}"
        )
    if options.related is not None:
        raise UsageError(
            f"{name_setting('related', options.related)} cannot be combined with a check, which "
            f"lists the pairs that reach the threshold; give "
            f"{name_setting('threshold', options.related)} instead"
        )
    return with_pair_budget(replace(options, across=BETWEEN_INPUTS))


def check_inputs(run: Run, inputs: TwoInputs) -> CheckResult:
    """Finds the near-duplicates between two inputs."""
    run.sources_of = lambda documents: inputs.are_second(documents).astype(np.uint64)
    run.to_pairs()
    missing = estimate_missing_pairs(run, expand_exact=False)
    of_second = inputs.are_second(run.documents())
    pairs = pa.Table.from_batches(_iterate_pairs(run, inputs), pairs_schema(run))
    has_pair = np.zeros(len(of_second), bool)
    scored = run.scored()
    for start in range(0, len(scored.pairs), PAIRS_PER_BATCH):
        packed = np.asarray(scored.pairs[start : start + PAIRS_PER_BATCH])
        has_pair[np.concatenate(unpack_pairs(packed))] = True
    parameters = dict(run.options.parameters())
    del parameters["across"]
    return CheckResult(
        pairs=ResultTable(pairs),
        documents=(int(np.count_nonzero(~of_second)), int(np.count_nonzero(of_second))),
        affected=(
            int(np.count_nonzero(has_pair & ~of_second)),
            int(np.count_nonzero(has_pair & of_second)),
        ),
        rejected=run.sketch_stats.rejected,
        missing=missing,
        warnings=tuple(warn_of_run(run)),
        request={
            "command": "check",
            "spec": json.loads(run.options.spec.to_json()),
            "parameters": parameters,
        },
    )


def _iterate_pairs(run: Run, inputs: TwoInputs) -> Iterator[pa.RecordBatch]:
    """Yields the table of pairs. The first document of each is one of the first input."""
    documents = run.documents()
    of_second = inputs.are_second(documents)
    ids = inputs.own_ids(documents)
    if run.columns.id is not None:
        # Ids may occur in both inputs, and have no places appended here.
        ids = read_columns(documents.folder / "columns", ())[ID]
    scored = run.scored()
    rows = rows_of_batch(ids)
    for start in range(0, len(scored.pairs), rows):
        part = scored.select(slice(start, start + rows))
        packed = np.asarray(part.pairs)
        a, b = unpack_pairs(packed)
        is_swapped = of_second[a]
        columns = [
            take_values(ids, np.where(is_swapped, b, a)),
            take_values(ids, np.where(is_swapped, a, b)),
            pa.array(part.similarity),
            pa.array(run.estimate(packed), pa.float32()),
        ]
        distance = run.measure.estimator.hamming_distances(part.similarity)
        if distance is not None:
            columns.append(pa.array(distance, pa.int32()))
        yield pa.record_batch(columns, schema=pairs_schema(run))
