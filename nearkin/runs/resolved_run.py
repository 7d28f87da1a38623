"""The conversion of a request to a Spec.

Two parts of a Spec depend on the corpus: the length of its vectors, and the document frequencies
of its shingles.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

from nearkin.corpus import Columns, FileCorpus, detect_dimensions
from nearkin.corpus.input_file import FileStatus
from nearkin.corpus.inputs import Selection
from nearkin.engine.document_frequencies import FrequencyRequest, count_frequencies
from nearkin.engine.fields import FieldRule, make_spec_of_fields, with_sizes
from nearkin.engine.spec_of_columns import resolve_spec
from nearkin.errors import UsageError
from nearkin.runs.saved import SavedRun
from nearkin.runtime.outputs import MANIFEST, Claim, require_apart, work_folder_of
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean
from nearkin.settings.acceptance.parser import SIMILAR
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import IDF_JACCARD, KEYED, Spec
from nearkin.stages.sketch.resources import DocumentFrequencies, SpecResources, weighted_by

LEAST_CUT = 20
"""The least number of documents that must contain a shingle before a frequency cut removes it."""


class KeyFields(TypedDict, total=False):
    """The fields of a Spec that a key decides."""

    base_hash: str
    key_id: str


@dataclass(frozen=True)
class SpecRequest:
    """The options from which a Spec is made.

    Attributes:
        measure: The measure, or None for the default of the columns.
        fields: Fields of the Spec that were given.
        weights: `tf` or `tfidf`, for simhash.
        frequencies: A file of document frequencies that were counted before, for `tfidf` and for
            measure `idf-jaccard`.
        max_df: The share of the documents, in (0, 1), above which a shingle is removed.
        cut_list: A file of shingles to remove that were counted before. It replaces `max_df`.
        secret: The key with which shingles are hashed, or None for an unkeyed hash.
        compared_fields: Several fields that are compared, or none for documents of one column.
        accept: The condition over these fields.
    """

    measure: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    weights: str | None = None
    frequencies: Path | None = None
    max_df: float | None = None
    cut_list: Path | None = None
    secret: HashKey | None = None
    compared_fields: tuple[FieldRule, ...] = ()
    accept: str = SIMILAR

    def to_spec(self, columns: Columns) -> Spec:
        """Returns the Spec, still without document frequencies and without a frequency cut."""
        keyed: KeyFields = {}
        if self.secret is not None:
            keyed = {"base_hash": KEYED, "key_id": self.secret.id}
        if self.compared_fields:
            rules = with_sizes(self.compared_fields, columns.fields)
            return make_spec_of_fields(rules, self.accept, {**self.fields, **keyed})
        return resolve_spec(columns, self.measure, **self.fields, **keyed)


class ResolvedInputs(NamedTuple):
    """The parts of a job that depend on its inputs.

    Attributes:
        columns: The columns that are read, with the length of the vectors.
        spec: The Spec of the signatures.
        resources: The hash key and the data that the Spec refers to.
        statuses: The statuses of the files that were read, by path. The job must find the same.
        account: A sentence with the numbers of files by kind. Empty for a saved run.
    """

    columns: Columns
    spec: Spec
    resources: SpecResources
    statuses: Mapping[str, FileStatus] = MappingProxyType({})
    account: str = ""


FrequencyCounter = Callable[[FrequencyRequest, float], DocumentFrequencies]
"""A function that counts documents for each shingle that more than a share of them contain."""


def _accept(spec: Spec, columns: Columns) -> None:
    """Accepts every Spec."""


def resolve_inputs(
    inputs: tuple[str, ...],
    columns: Columns,
    request: SpecRequest,
    on_error: str,
    workers: int,
    out: Path,
    progress: Progress,
    count: FrequencyCounter = count_frequencies,
    check: Callable[[Spec, Columns], object] = _accept,
    selection: Selection | None = None,
) -> ResolvedInputs:
    """Reads the inputs as far as their Spec requires it.

    The Spec and the document frequencies of a saved run are taken from its output.
    """
    saved = SavedRun.find(inputs)
    if saved is not None:
        return _resolve_saved(saved, columns, request, check)
    if any("://" in given for given in inputs):
        progress.stage("list inputs", None)
    corpus = FileCorpus.open(inputs, on_error, selection=selection)
    columns = detect_dimensions(corpus, columns)
    corpus.check(columns)
    require_apart(out, [*inputs, *(file.path for file in corpus.files)])
    spec = request.to_spec(columns)
    counting = FrequencyRequest(
        corpus, columns, spec, SpecResources(request.secret), workers, work_folder_of(out), progress
    )
    _check_weights(request, spec)
    check(spec, columns)

    def count_in_work_folder(counting: FrequencyRequest, share: float) -> DocumentFrequencies:
        with _hold_work_folder(out):
            return count(counting, share)

    spec, cut = _resolve_cut(request, counting, count_in_work_folder)
    spec, frequencies = _resolve_weights(request, counting, spec, count_in_work_folder)
    resources = SpecResources(request.secret, frequencies, cut)
    account = corpus.describe_files(columns)
    return ResolvedInputs(columns, spec, resources, corpus.statuses, account)


def _resolve_saved(
    saved: SavedRun,
    columns: Columns,
    request: SpecRequest,
    check: Callable[[Spec, Columns], object],
) -> ResolvedInputs:
    if request.max_df is not None or request.cut_list is not None:
        raise UsageError(
            f"{saved.folder} contains signatures already, and a frequency cut must be made before "
            "sketching; run nearkin dedup with the cut on the inputs of the saved run"
        )
    if request.secret is not None and saved.spec.base_hash != KEYED:
        raise UsageError(
            f"{name_setting('key')} contradicts the saved run {saved.folder}, which was hashed "
            "without a key; leave it out"
        )
    columns = saved.with_recorded_fields(columns)
    check(saved.spec, columns)
    resources = SpecResources.read(saved.folder, saved.spec, request.secret)
    return ResolvedInputs(columns, saved.spec, resources)


@contextmanager
def _hold_work_folder(out: Path) -> Iterator[None]:
    """Holds the work folder of an output. The files of an interrupted run in it are kept."""
    claim = Claim.take(out, "nearkin, which is counting shingles")
    try:
        yield
    finally:
        if (claim.path / MANIFEST).exists():
            claim.release()
        else:
            claim.remove()


def _resolve_cut(
    request: SpecRequest, counting: FrequencyRequest, count: FrequencyCounter
) -> tuple[Spec, DocumentFrequencies | None]:
    """Returns the Spec with the frequency cut that was requested, and the shingles that are cut."""
    if request.max_df is not None and request.cut_list is not None:
        raise UsageError(
            f"{name_setting('max_df', request.max_df)} and the cut list {request.cut_list} "
            f"exclude each other"
        )
    if request.cut_list is not None:
        cut = DocumentFrequencies.read(request.cut_list, counting.spec)
    elif request.max_df is not None:
        cut = count_frequency_cut(request.max_df, counting, count)
    else:
        return counting.spec, None
    return replace(counting.spec, cut=cut.fingerprint), cut


def count_frequency_cut(
    max_df: float, counting: FrequencyRequest, count: FrequencyCounter = count_frequencies
) -> DocumentFrequencies:
    """Counts the shingles that a frequency cut removes."""
    require_valid_cut(max_df, counting.spec)
    return select_frequency_cut(count(counting, max_df), max_df)


def require_valid_cut(max_df: float, spec: Spec) -> None:
    """Requires that a frequency cut is in range, and that documents have shingles."""
    if not 0 < max_df < 1:
        raise UsageError(
            f"{name_setting('max_df', max_df)} is outside 0 to 1 (exclusive): the share of "
            f"documents from which a "
            "shingle is cut"
        )
    if not spec.has_shingles:
        raise UsageError(f"{name_setting('max_df', max_df)} cuts shingles; {spec.unit}s have none")


def select_frequency_cut(counted: DocumentFrequencies, max_df: float) -> DocumentFrequencies:
    """Returns the shingles that a frequency cut removes."""
    least_share = (LEAST_CUT - 1) / max(counted.documents, 1)
    return counted.above(min(max(max_df, least_share), 1.0))


def _check_weights(request: SpecRequest, spec: Spec) -> None:
    if request.weights not in (None, "tf", "tfidf"):
        raise UsageError(
            f"{name_setting('weights', request.weights)} is not one of tf, tfidf"
            f"{did_you_mean(request.weights, ('tf', 'tfidf'))}"
        )
    if request.weights is not None and spec.measure != "simhash":
        raise UsageError(
            f"{name_setting('weights', request.weights)} requires measure simhash, and the "
            f"measure is "
            f"{spec.measure}"
        )
    if request.frequencies is not None and not _uses_frequencies(request, spec):
        raise UsageError(
            f"frequencies {request.frequencies} have no effect with measure {spec.measure}; leave "
            f"them out, or give {name_setting('measure', IDF_JACCARD)} or "
            f"{name_setting('weights', 'tfidf')}"
        )


def _uses_frequencies(request: SpecRequest, spec: Spec) -> bool:
    """Returns True if shingles are weighted by document frequencies."""
    return spec.measure == IDF_JACCARD or request.weights == "tfidf"


def _resolve_weights(
    request: SpecRequest, counting: FrequencyRequest, spec: Spec, count: FrequencyCounter
) -> tuple[Spec, DocumentFrequencies | None]:
    """Returns the Spec with its document frequencies if it needs some, and the frequencies."""
    if not _uses_frequencies(request, spec):
        return spec, None
    if request.frequencies is None:
        counted = count(counting, 0.0)
    else:
        counted = DocumentFrequencies.read(request.frequencies, spec)
    return weighted_by(counted, spec), counted
