"""The function `nearkin.choose`: settings from the data alone.

Lines of logs get the settings of their preset. For other texts, each candidate deduplicates a
sample of the documents with a low threshold, and then with higher ones until few removals are
doubtful (see `nearkin.quality.evaluate.doubtful_removals`). The candidate that removes most
documents without doubt is chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import pyarrow as pa

from nearkin.corpus import Columns, Corpus
from nearkin.engine.advice import advise, explain_advice
from nearkin.engine.chosen_settings import ChosenSettings, TriedSettings
from nearkin.engine.document_facts import text_lengths
from nearkin.engine.keywords import RunParameters
from nearkin.engine.parameters import columns_of, memory_of
from nearkin.engine.short_documents import USUAL_THRESHOLD, count_short_documents
from nearkin.errors import UsageError
from nearkin.quality.evaluate.doubtful_removals import (
    FEW_DOUBTFUL,
    THRESHOLD_STEP,
)
from nearkin.quality.fit.documents import FitDocuments
from nearkin.quality.fit.log_lines import measure_log_shares
from nearkin.reports.run_warnings import log_warnings
from nearkin.runs.choose_weights import choose_weights, weigh_doubts
from nearkin.runs.temporary_runs import open_corpus
from nearkin.runs.trial import find_doubtful, make_table, read_sample
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.notebook_progress import open_progress
from nearkin.runtime.number_format import format_percent
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.keywords import ReadKeywords
from nearkin.settings.presets import Preset
from nearkin.settings.spec import Spec
from nearkin.settings.table import FieldColumnSettings, ReadSettings, ResourceSettings, names_of
from nearkin.stages.cluster.keep import KeepPolicy
from nearkin.stages.sketch.resources import NO_RESOURCES
from nearkin.stages.verify.jaccard import SetBuilder


class Candidate(NamedTuple):
    """A definition of similarity, with the threshold from which it is tried."""

    shingle: str
    measure: str
    lowest: float


CANDIDATES = (
    Candidate("words:3", "jaccard", 0.3),
    Candidate("words:2", "idf-jaccard", 0.3),
    Candidate("words:1", "idf-jaccard", 0.4),
    Candidate("chars:5", "jaccard", 0.4),
    Candidate("chars:3", "idf-jaccard", 0.36),
)
"""The candidates, the ones whose runs are fastest first."""
MOST_RUNS = 6
"""The largest number of thresholds of a candidate that are tried."""
LEAST_GAIN = 1.02
"""The factor by which a candidate must remove more documents without doubt than a faster one."""
LEAST_OF_WEIGHTS = 0.7
"""The part of the gain of another definition that weights of columns must have. They are preferred,
because they know in which columns copies of these rows differ, and words do not."""
LEAST_DOCUMENTS = 100
"""The number of documents from which a run chooses its settings. Fewer are seen at a glance."""
LOOKED_AT = 1000
"""The number of documents at the beginning of a corpus that show whether it needs a choice."""
MOST_ROW_BYTES = 1000
"""The mean size of rows of several columns up to which a run chooses its settings. Pages and
articles with a title are longer, and keep the default settings."""
SHORT = 0.5
"""The share of short texts from which a run chooses its settings."""
INDEPENDENT_SETTINGS = {
    *names_of(FieldColumnSettings, ReadSettings, ResourceSettings),
    *("across", "empty", "expect", "fanout", "hot_bucket_size", "keep", "keep_up_to", "key"),
    *("max_removed", "pair_budget", "recall", "source", "split"),
}
"""The settings of a run that do not define which documents are similar."""
DEFAULT_SETTINGS: Mapping[str, object] = {
    "shingle": "words:3",
    "measure": "jaccard",
    "threshold": 0.8,
}
"""The settings if no candidate removes documents without doubt: those of a run without options."""
LOG_SETTINGS = ("shingle", "normalise", "measure", "threshold", "cluster")
"""The settings of the preset `logs` that are chosen for lines of logs."""


@check_arguments
def choose(
    data: Any,
    *,
    id: str | None = None,
    text: str | Sequence[str] | None = None,
    across: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **reading: Unpack[ReadKeywords],
) -> ChosenSettings:
    """Chooses the settings that remove most duplicates of texts without doubt, without labels.

    Lines of logs get the settings of the preset `logs`, which ignore times, numbers and other
    values. For other texts, five definitions of similarity are tried over at most 20,000 documents,
    and fewer of long ones. For each, the threshold is the lowest one at which at most a tenth of
    the removals are doubtful, raised as long as most of the removals that it gives up are doubtful.

    Rows of up to 50 columns are compared by weights of columns, too. They are preferred if they
    remove nearly as much.

    The scores of the choice over labelled sets are in docs/explanation/doubtful-removals.md.

    Args:
        data: The documents, as for `dedup`.
        id: Column of ids. The default is the row number, or the path and the row for files.
        text: Column of texts, or several columns, whose texts are joined. The default is `text`.
        across: Column of sources. Only documents of different sources are compared, as in runs with
            this option, and the settings contain it.
        workers: Number of threads. By default, the cores that the process may use.
        progress: Receives the stages. By default, they are logged to `nearkin.run` (INFO).
        **reading: The options of reading, which `nearkin.settings.table` describes.

    Returns:
        The choice. If every definition removes too many doubtful documents, the settings are those
        of a run without options, and a warning says so.

    Raises:
        UsageError: If a parameter is not valid, or the data cannot be read.
        RunError: If a file cannot be read.

    Examples:
        >>> import random
        >>> draw = random.Random(1)
        >>> words = ["".join(draw.choices("abcdefgh", k=6)) for _ in range(500)]
        >>> lines = [" ".join(draw.choices(words, k=9)) for _ in range(200)]
        >>> copies = [line.replace("a", "", 1) for line in lines[:50]]
        >>> chosen = choose([*lines, *copies])
        >>> sorted(chosen.settings)
        ['measure', 'shingle', 'threshold']
    """
    content: RunParameters = {"text": text}
    columns = columns_of({**content, **reading}, id)
    corpus = open_corpus(data, reading)
    with open_progress(progress) as updates:
        chosen = choose_settings(corpus, columns, across, workers_or_cores(workers), updates)
    log_warnings(chosen.warnings)
    return chosen


def choose_for_run(
    corpus: Corpus, columns: Columns, parameters: RunParameters, progress: Progress
) -> ChosenSettings | None:
    """Chooses the settings of a run over a table, short texts or logs, or None if it needs none.

    The settings of a run without options find a copy with a changed word only if a text has about
    thirty words. So the settings of longer texts stay, and so do those that are given.
    """
    given = {name for name, value in parameters.items() if value is not None}
    if columns.text is None or not given <= INDEPENDENT_SETTINGS:
        return None
    corpus.check(columns)
    beginning = _read_beginning(corpus, columns)
    if len(beginning) < LEAST_DOCUMENTS:
        return None
    is_table = columns.joined and bool(text_lengths(beginning).mean() <= MOST_ROW_BYTES)
    if not (is_table or _are_short(beginning) or measure_log_shares(beginning).are_logs):
        return None
    choosable = columns.sources if columns.joined and _allows_condition(parameters) else ()
    documents = read_sample(corpus, columns, parameters.get("across"), progress, choosable)
    chosen = _choose_for_logs(documents, columns)
    if chosen is not None or not (is_table or _are_short(documents.contents)):
        return chosen
    workers = workers_or_cores(parameters.get("workers"))
    with PeakMemory() as memory:
        remedy = _advise_answers(corpus, columns)
        chosen = _choose(documents, workers, progress, memory_of(parameters), remedy)
    return replace(chosen, peak_memory=memory.peak)


def _allows_condition(parameters: RunParameters) -> bool:
    """Returns whether a condition may decide which rows are removed."""
    keep = parameters.get("keep")
    return not isinstance(keep, str) or KeepPolicy.parse(keep).cluster_criterion is None


def _read_beginning(corpus: Corpus, columns: Columns) -> pa.Array:
    """Reads the first texts."""
    texts: list[pa.Array] = []
    missing = LOOKED_AT
    for batch in corpus.batches(columns):
        texts.append(batch.documents[columns.content].slice(0, missing))
        missing -= len(texts[-1])
        if not missing:
            break
    return pa.concat_arrays([pa.array([], pa.large_string()), *texts])


def _are_short(texts: pa.Array) -> bool:
    """Returns whether most texts are too short for the default settings."""
    sizes = SetBuilder(NO_RESOURCES.shingler(Spec())).build(texts).sizes
    short = count_short_documents(sizes, Spec(), USUAL_THRESHOLD).fragile
    return short >= SHORT * len(texts)


def choose_settings(
    corpus: Corpus, columns: Columns, across: str | None, workers: int, progress: Progress
) -> ChosenSettings:
    """Chooses settings for the texts of a corpus."""
    if columns.text is None:
        raise UsageError(
            "settings are chosen without labels for texts only, because words show what differs; "
            f"pass {name_setting('labels')}"
        )
    choosable = columns.sources if columns.joined else ()
    documents = read_sample(corpus, columns, across, progress, choosable)
    chosen = _choose_for_logs(documents, columns)
    remedy = _advise_answers(corpus, columns)
    return chosen or _choose(documents, workers, progress, AUTOMATIC, remedy)


def _advise_answers(corpus: Corpus, columns: Columns) -> str:
    """Returns what to do if no settings remove documents without doubt."""
    advice = advise(None, are_short=True, have_gap=False)
    return explain_advice(advice, corpus, columns)


def _choose(
    documents: FitDocuments, workers: int, progress: Progress, memory: int | str, remedy: str
) -> ChosenSettings:
    """Chooses settings for the documents of a sample."""
    table = make_table(documents)
    columns = None if documents.texts is None else list(documents.texts.columns)
    progress.stage("choose", len(CANDIDATES) + (documents.texts is not None))
    tried = []
    for candidate in CANDIDATES:
        tried.append(_try(candidate, columns, table, workers, memory))
        progress.advance(1)
    best: TriedSettings | None = None
    for one in tried:
        if one.undoubted > (0 if best is None else LEAST_GAIN * best.undoubted):
            best = one
    if documents.texts is not None:
        weighted = choose_weights(documents, table, workers, memory)
        tried.append(weighted)
        progress.advance(1)
        usual = 0.0 if best is None else LEAST_OF_WEIGHTS * weigh_doubts(best)
        if weigh_doubts(weighted) > max(usual, 0.0):
            best = weighted
    settings = dict(DEFAULT_SETTINGS)
    warnings = []
    if best is None and any(one.removed for one in tried):
        warnings.append(
            f"no settings remove documents without doubt, so the defaults stay. {remedy}"
        )
    if best is not None:
        settings = best.to_settings()
    if documents.across is not None:
        settings["across"] = documents.across
    if best is not None and len(documents) < documents.corpus_documents:
        warnings.append(
            f"{len(documents):,} of {documents.corpus_documents:,} documents were compared; more "
            "documents have more neighbours by chance, so look at the doubtful removals of the run"
        )
    return ChosenSettings(
        settings,
        tuple(tried),
        documents.corpus_documents,
        len(documents),
        tuple(warnings),
        is_default=best is None,
    )


def _choose_for_logs(documents: FitDocuments, columns: Columns) -> ChosenSettings | None:
    """Returns the settings of lines of logs, or None if a sample has other texts or sources.

    Rows of several columns are not logs: measurements and payments differ in values alone.
    """
    if documents.sources is not None or columns.joined:
        return None
    shares = measure_log_shares(documents.contents)
    if not shares.are_logs:
        return None
    preset = Preset.read("logs").values
    return ChosenSettings(
        {name: preset[name] for name in LOG_SETTINGS},
        (),
        documents.corpus_documents,
        len(documents),
        (),
        reason=f"lines of logs: {format_percent(shares.repeated)} of the lines equal others but "
        "for times, addresses, paths and numbers, which are ignored",
    )


def _try(
    candidate: Candidate,
    columns: list[str] | None,
    table: pa.Table,
    workers: int,
    memory: int | str,
) -> TriedSettings:
    """Finds the lowest threshold of a candidate at which few removals are doubtful.

    A higher threshold makes other clusters, so the one that a run advises is tried in turn. It is
    raised further as long as most of the removals that it gives up are doubtful.
    """
    threshold = candidate.lowest
    most = 0
    accepted: TriedSettings | None = None
    for _ in range(MOST_RUNS):
        settings: RunParameters = {
            "shingle": candidate.shingle,
            "measure": candidate.measure,
            "threshold": threshold,
        }
        if columns is not None:
            settings["text"] = columns
        doubtful = find_doubtful(settings, table, workers, memory)
        if doubtful is None:
            break
        most = max(most, doubtful.near)
        are_few = doubtful.share <= FEW_DOUBTFUL
        if are_few:
            undoubted = doubtful.near * (1 - doubtful.share)
            accepted = TriedSettings(
                candidate.shingle, candidate.measure, threshold, doubtful.near, undoubted
            )
        elif doubtful.advised_threshold is None:
            break
        higher = max(doubtful.best_threshold, doubtful.advised_threshold or 0.0)
        if are_few and higher <= threshold:
            break
        threshold = max(higher, round(threshold + THRESHOLD_STEP, 2))
    return accepted or TriedSettings(candidate.shingle, candidate.measure, None, most)
