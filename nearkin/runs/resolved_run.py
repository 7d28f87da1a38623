"""The options of a run over given inputs, which its parameters make.

Parts of a Spec depend on the inputs: the length of its vectors, the document frequencies of its
shingles, and the definition of similarity if nobody gives one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

from nearkin.corpus import Columns, Corpus, FileCorpus, detect_dimensions
from nearkin.corpus.inputs import Selection
from nearkin.engine.chosen_settings import ChosenSettings
from nearkin.engine.document_frequencies import FrequencyRequest, count_frequencies
from nearkin.engine.keywords import RunParameters
from nearkin.engine.options import RunOptions
from nearkin.engine.parameters import make_run_options, resources_of, spec_of, with_contents
from nearkin.errors import UsageError
from nearkin.runs.saved import SavedRun
from nearkin.runtime.outputs import MANIFEST, Claim, require_apart, work_folder_of
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import IDF_JACCARD, KEYED, Spec
from nearkin.stages.sketch.resources import DocumentFrequencies, SpecResources, weighted_by

LEAST_CUT = 20
"""The least number of documents that must contain a shingle before a frequency cut removes it."""
FrequencyCounter: TypeAlias = Callable[[FrequencyRequest, float], DocumentFrequencies]
"""A function that counts documents for each shingle that more than a share of them contain."""
SettingsChoice: TypeAlias = Callable[
    [Corpus, Columns, RunParameters, Progress], ChosenSettings | None
]
"""A function that chooses the settings of a run, or returns None if its parameters decide."""
OptionsCheck: TypeAlias = Callable[[RunOptions], RunOptions]
"""A function that returns the options of a run, perhaps changed, after it has checked them."""


@dataclass(frozen=True)
class ResolvedRun:
    """The parts of a run that depend on its inputs.

    Attributes:
        columns: The columns that are read, with the length of the vectors.
        options: The options of the run.
        resources: The hash key and the data that the Spec refers to.
        corpus: The corpus of the inputs. None for a saved run.
        account: A sentence with the numbers of files by kind. Empty for a saved run.
        chosen: The choice of the settings, if nobody gave any.
    """

    columns: Columns
    options: RunOptions
    resources: SpecResources
    corpus: FileCorpus | None = None
    account: str = ""
    chosen: ChosenSettings | None = None


def _make_options(
    columns: Columns, parameters: RunParameters, check_options: OptionsCheck | None, spec: Spec
) -> tuple[Columns, RunOptions]:
    """Returns the options of a run, and the columns with those that the options name."""
    options = make_run_options(spec, parameters)
    if check_options is not None:
        options = check_options(options)
    return replace(columns, carried_columns=options.carried_columns), options


def resolve_run(
    corpus: Corpus,
    columns: Columns,
    parameters: RunParameters,
    folder: Path,
    progress: Progress,
    check_options: OptionsCheck | None = None,
    count: FrequencyCounter = count_frequencies,
    choose: SettingsChoice | None = None,
) -> ResolvedRun:
    """Reads a corpus as far as the Spec of a run requires it."""
    columns = detect_dimensions(corpus, columns)
    parameters = with_contents(parameters, columns)
    spec = spec_of(parameters, columns)
    columns, options = _make_options(columns, parameters, check_options, spec)
    chosen = None if choose is None else choose(corpus, columns, parameters, progress)
    if chosen is not None:
        parameters = cast(RunParameters, {**parameters, **chosen.settings})
        spec = spec_of(parameters, columns)
        columns, options = _make_options(columns, parameters, check_options, spec)
    resources = resources_of(parameters)
    counting = FrequencyRequest(corpus, columns, spec, resources, options.workers, folder, progress)
    spec, resources = complete_spec(counting, parameters, count)
    return ResolvedRun(columns, options.with_spec(spec), resources, chosen=chosen)


def resolve_inputs(
    inputs: tuple[str, ...],
    columns: Columns,
    parameters: RunParameters,
    out: Path,
    progress: Progress,
    check_options: OptionsCheck | None = None,
    *,
    on_error: str = "quarantine",
    selection: Selection | None = None,
    choose: SettingsChoice | None = None,
    count: FrequencyCounter | None = None,
) -> ResolvedRun:
    """Reads the inputs of a job as far as their Spec requires it.

    The Spec and the document frequencies of a saved run are taken from its output.
    """
    saved = SavedRun.find(inputs)
    if saved is not None:
        return _resolve_saved(saved, columns, parameters, check_options)
    if any("://" in given for given in inputs):
        progress.stage("list inputs", None)
    corpus = FileCorpus.open(inputs, on_error, selection=selection)
    require_apart(out, [*inputs, *(file.path for file in corpus.files)])
    resolved = resolve_run(
        corpus,
        columns,
        parameters,
        work_folder_of(out),
        progress,
        check_options,
        count or partial(count_in_work_folder, out),
        choose,
    )
    account = corpus.describe_files(resolved.columns)
    return replace(resolved, corpus=corpus, account=account)


def _resolve_saved(
    saved: SavedRun,
    columns: Columns,
    parameters: RunParameters,
    check_options: OptionsCheck | None,
) -> ResolvedRun:
    key = parameters.get("key")
    if parameters.get("max_df") is not None or parameters.get("cut") is not None:
        raise UsageError(
            f"{saved.folder} contains signatures already, and a frequency cut must be made before "
            "sketching; run nearkin dedup with the cut on the inputs of the saved run"
        )
    if key is not None and saved.spec.base_hash != KEYED:
        raise UsageError(
            f"{name_setting('key')} contradicts the saved run {saved.folder}, which was hashed "
            "without a key; leave it out"
        )
    columns = saved.with_recorded_fields(columns)
    parameters = with_contents(parameters, columns)
    columns, options = _make_options(columns, parameters, check_options, saved.spec)
    return ResolvedRun(columns, options, SpecResources.read(saved.folder, saved.spec, key))


def count_in_work_folder(
    out: Path, counting: FrequencyRequest, share: float
) -> DocumentFrequencies:
    """Counts shingles in the work folder of an output. Files of an interrupted run are kept."""
    claim = Claim.take(out, "nearkin, which is counting shingles")
    try:
        return count_frequencies(counting, share)
    finally:
        if (claim.path / MANIFEST).exists():
            claim.release()
        else:
            claim.remove()


def complete_spec(
    counting: FrequencyRequest,
    parameters: RunParameters,
    count: FrequencyCounter = count_frequencies,
) -> tuple[Spec, SpecResources]:
    """Returns a Spec with the cut and the frequencies that parameters ask for, and their data.

    Those that are not given are counted, or read from files.
    """
    spec = counting.spec
    resources = counting.resources
    file: object = parameters.get("cut")
    max_df = parameters.get("max_df")
    if isinstance(file, Path) or max_df is not None:
        if isinstance(file, Path):
            cut = DocumentFrequencies.read(file, spec)
        else:
            cut = _count_frequency_cut(max_df, counting, count)
        resources = replace(resources, cut=cut)
        spec = replace(spec, cut=cut.fingerprint)
    is_weighted = spec.measure == IDF_JACCARD or parameters.get("weights") == "tfidf"
    if is_weighted and spec.frequencies is None:
        file = parameters.get("frequencies")
        if isinstance(file, Path):
            frequencies = DocumentFrequencies.read(file, counting.spec)
        else:
            frequencies = resources.frequencies or count(counting, 0.0)
        resources = replace(resources, frequencies=frequencies)
        spec = weighted_by(frequencies, spec)
    return spec, resources


def _count_frequency_cut(
    max_df: float | None, counting: FrequencyRequest, count: FrequencyCounter
) -> DocumentFrequencies:
    """Counts the shingles that a frequency cut removes."""
    spec = counting.spec
    if max_df is None or not 0 < max_df < 1:
        raise UsageError(
            f"{name_setting('max_df', max_df)} is outside 0 to 1 (exclusive): the share of "
            f"documents from which a shingle is cut"
        )
    if not spec.has_shingles:
        raise UsageError(f"{name_setting('max_df', max_df)} cuts shingles; {spec.unit}s have none")
    counted = count(counting, max_df)
    least_share = (LEAST_CUT - 1) / max(counted.documents, 1)
    return counted.above(min(max(max_df, least_share), 1.0))
