"""The function `nearkin.fit`."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Unpack, cast

import pyarrow as pa

from nearkin.corpus import Columns, Corpus, detect_dimensions
from nearkin.engine.keywords import RunParameters
from nearkin.engine.parameters import columns_of
from nearkin.errors import UsageError
from nearkin.quality.evaluate.doubtful_removals import DoubtfulRemovals
from nearkin.quality.evaluate.golden import (
    GoldenSet,
    golden_set_from_clusters,
    parse_labelled,
    read_golden_set,
)
from nearkin.quality.fit.fitting import SAMPLE_DOCUMENTS, FitRequest, fit_settings
from nearkin.quality.fit.objective import Objective
from nearkin.quality.fit.result import FitResult
from nearkin.reports.run_warnings import log_warnings
from nearkin.runs.temporary_runs import open_corpus
from nearkin.runs.trial import find_doubtful, make_table, read_sample
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.notebook_progress import open_progress
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.progress import Progress
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.keywords import ReadKeywords


@check_arguments
def fit(
    data: Any,
    labels: str | Path | GoldenSet | Mapping[str, str] | None = None,
    *,
    id: str | None = None,
    text: str | Sequence[str] | None = None,
    tokens: str | None = None,
    vector: str | None = None,
    across: str | None = None,
    objective: str = "f1",
    labelled: str = "clusters",
    sample: int = SAMPLE_DOCUMENTS,
    seed: int = 1,
    workers: int | None = None,
    progress: Progress | None = None,
    **reading: Unpack[ReadKeywords],
) -> FitResult:
    """Chooses the settings with which duplicates are found best, from labels.

    Shingles, normalization, measures, thresholds, acceptances and columns are tried, and judged by
    the clusters that `dedup` makes with them. The same search is repeated in cross-validation,
    whose scores are those to expect on documents without labels.

    Args:
        data: The documents, as for `dedup`.
        labels: A file of labelled pairs (`id_a`, `id_b`, `label`), clusters (`id`, `cluster`) or
            decisions, a golden set, or the name of the true cluster of each document, by id.
        id: Column of ids. The default is the row number, or the path and the row for files.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`. Of
            several columns, those are chosen that are best, and the settings contain them.
        tokens: Column of token lists, instead of texts.
        vector: Column of vectors, instead of texts. Only the threshold of the cosine is chosen.
        across: Column of sources. Only documents of different sources are compared, as in runs with
            this option, and the settings contain it.
        objective: `f1`; a minimum, such as `precision>=0.99`, under which the recall is the
            largest, or `recall>=0.95`, under which the precision is; or `lost<=0.01`, the share of
            the labelled clusters of which no document may be kept, under which the share of
            redundant documents that are removed is the largest.
        labelled: What was chosen for labelling, if clusters are labelled: whole `clusters`, so that
            all other documents are distinct from them, or single `documents`.
        sample: Number of documents of which all pairs are compared. Whole clusters are drawn, and
            distinct pairs are extrapolated to all documents. All labelled pairs are compared.
        seed: Random seed of samples and folds.
        workers: Number of threads. By default, the cores that the process may use.
        progress: Receives stage and row-count updates. By default, stages are logged to
            `nearkin.run` (INFO).
        **reading: The options of reading, which `nearkin.settings.table` describes.

    Raises:
        UsageError: If a parameter is not valid, the data or the labels cannot be read, the labels
            are all of one kind, or most labelled documents are not in the data.
        RunError: If a file cannot be read.

    Examples:
        >>> texts = {"a": "john smith london", "b": "jon smith london", "c": "mary jones leeds"}
        >>> from nearkin import dedup
        >>> table = {"id": list(texts), "text": list(texts.values())}
        >>> fitted = fit(table, {"a": "1", "b": "1", "c": "2"}, id="id")
        >>> dedup(table, id="id", settings=fitted.settings).kept.tolist()
        [True, False, True]
    """
    request = FitRequest(
        Objective.parse(objective),
        parse_labelled(labelled),
        sample,
        seed,
        workers_or_cores(workers),
        across,
    )
    if labels is None:
        raise UsageError("fit needs labels; nk.choose(data) chooses settings without them")
    if isinstance(labels, GoldenSet):
        golden = labels
    elif isinstance(labels, Mapping):
        golden = golden_set_from_clusters(labels)
    else:
        golden = read_golden_set(Path(labels))
    content: RunParameters = {"text": text, "tokens": tokens, "vector": vector}
    columns = columns_of({**content, **reading}, id)
    corpus = open_corpus(data, reading)
    columns = detect_dimensions(corpus, columns)
    with open_progress(progress) as updates:
        fitted = fit_corpus(corpus, columns, golden, request, updates)
    log_warnings(fitted.warnings)
    return fitted


def fit_corpus(
    corpus: Corpus, columns: Columns, golden: GoldenSet, request: FitRequest, progress: Progress
) -> FitResult:
    """Chooses settings from labels, and tries what labelled pairs of texts suggest."""
    if columns.text is None:
        return fit_settings(corpus, columns, golden, request, progress)

    @cache
    def read_table() -> pa.Table:
        choosable = columns.sources if columns.joined else ()
        return make_table(read_sample(corpus, columns, request.across, progress, choosable, golden))

    def examine(settings: Mapping[str, object]) -> DoubtfulRemovals | None:
        given = {name: value for name, value in settings.items() if name != "across"}
        parameters = cast("RunParameters", given)
        return find_doubtful(parameters, read_table(), request.workers, AUTOMATIC, golden)

    return fit_settings(corpus, columns, golden, request, progress, examine)
