"""Trial runs over a sample of documents, which show what settings would remove."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Columns, Corpus
from nearkin.engine.keywords import RunParameters
from nearkin.engine.second_measure import to_final_clusters
from nearkin.quality.evaluate.doubtful_removals import (
    DoubtfulRemovals,
    RemovalSample,
    draw_places,
    find_doubtful_removals,
)
from nearkin.quality.evaluate.golden import GoldenSet
from nearkin.quality.fit.documents import FitDocuments, read_documents
from nearkin.runs.temporary_runs import prepare_run
from nearkin.runtime.progress import LoggedProgress, Progress
from nearkin.settings.spec import Spec

SAMPLED_DOCUMENTS = 20_000
"""The largest number of documents of a sample."""
COMPARED_DOCUMENTS = 3000
"""The number of documents of 2,000 bytes of a sample. The work grows with the number of documents
and with their total size, so there are more of smaller ones (see `limit_compared`)."""
MOST_LABELLED = 500
"""The largest number of labelled duplicates whose documents are drawn for certain."""
SAMPLE_SEED = 1


def read_sample(
    corpus: Corpus,
    columns: Columns,
    across: str | None,
    progress: Progress,
    choosable: Sequence[str] = (),
    golden: GoldenSet | None = None,
) -> FitDocuments:
    """Draws the documents that trial runs deduplicate, with the texts of columns to choose from.

    Some labelled duplicates are among them.
    """
    labelled: list[str] = []
    if golden is not None and golden.duplicates is not None:
        drawn = draw_places(len(golden.duplicates), MOST_LABELLED, SAMPLE_SEED)
        labelled = [golden.ids[place] for place in np.unique(golden.duplicates[drawn]).tolist()]
    return read_documents(
        corpus,
        columns,
        labelled,
        SAMPLED_DOCUMENTS,
        SAMPLE_SEED,
        progress,
        compared=COMPARED_DOCUMENTS,
        across=across,
        choosable=choosable,
    )


def make_table(documents: FitDocuments) -> pa.Table:
    """Returns the table over which trial runs are made."""
    table: dict[str, pa.Array] = {"text": documents.contents}
    if documents.texts is not None:
        texts = documents.texts
        table = {column: texts.of_documents.field(column) for column in texts.columns}
    table["id"] = pa.array(documents.ids, pa.large_string())
    if documents.sources is not None:
        table["source"] = pa.array(map(str, documents.sources.hashes.tolist()), pa.string())
    return pa.table(table)


def find_doubtful(
    settings: RunParameters,
    table: pa.Table,
    workers: int,
    memory: int | str,
    golden: GoldenSet | None = None,
) -> DoubtfulRemovals | None:
    """Deduplicates a sample, and examines what is removed, and labelled duplicates like it.

    Values that the settings mask are compared too, because whether they matter is the question.
    Returns None if no near-duplicates are removed.
    """
    parameters: RunParameters = {
        **settings,
        "max_removed": 1.0,
        "workers": workers,
        "memory": memory,
    }
    if "source" in table.column_names:
        parameters["across"] = "source"
    # The folder of the run is deleted with it.
    temporary = prepare_run(table, "id", None, LoggedProgress(), parameters)
    run = temporary.run
    clusters = to_final_clusters(run)
    documents = run.documents()
    known = None if golden is None else _find_duplicates(golden, documents.ids)
    sample = RemovalSample(clusters, np.asarray(documents.lengths), least=1, known=known)
    for batch in run.corpus.batches(run.columns):
        sample.texts.observe(batch.first, batch.documents[run.columns.content])
    return find_doubtful_removals(
        sample, clusters, Spec(), documents.ids, has_sources="across" in parameters
    )


def _find_duplicates(golden: GoldenSet, ids: pa.ChunkedArray) -> np.ndarray:
    """Returns the numbers of the documents of labelled pairs of duplicates, int64 (p, 2)."""
    if golden.duplicates is None:
        return np.empty((0, 2), np.int64)
    labelled = pa.array(golden.ids, pa.large_string())
    places = pc.index_in(labelled, value_set=ids).fill_null(-1).to_numpy()
    pairs = places[golden.duplicates].astype(np.int64)
    return np.asarray(pairs[(pairs >= 0).all(axis=1)])
