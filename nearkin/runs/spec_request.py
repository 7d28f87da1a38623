"""From what is asked to a Spec: what only the corpus can tell (the length of its vectors, how often its shingles occur)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from nearkin.corpus import Columns, FileCorpus, with_dimensions
from nearkin.corpus.input_file import FileStatus
from nearkin.corpus.inputs import Selection
from nearkin.engine.local.document_frequencies import Counting, count_frequencies
from nearkin.errors import UsageError
from nearkin.keys import HashKey
from nearkin.runs.jobs import Saved
from nearkin.runtime.outputs import MANIFEST, Claim, require_apart, work_folder_of
from nearkin.runtime.progress import Progress
from nearkin.sketch.resources import DocumentFrequencies, SpecResources
from nearkin.spec import KEYED, Spec

LEAST_CUT = 20
"""A shingle of fewer documents is never boilerplate, however small the corpus."""


@dataclass(frozen=True)
class Asked:
    """What a Spec is made from.

    Attributes:
        measure: None for the one that goes with the columns.
        fields: Of the Spec, as far as they were given.
        weights: Of simhash: `tf` or `tfidf`.
        frequencies: A file of document frequencies counted before, for `tfidf`.
        max_df: Shingles of more than this share of the documents are left out.
        cut_list: A file of such shingles counted before, instead.
        secret: A key: the base hash is keyed with it.
    """

    measure: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    weights: str | None = None
    frequencies: Path | None = None
    max_df: float | None = None
    cut_list: Path | None = None
    secret: HashKey | None = None

    def spec(self, columns: Columns) -> Spec:
        """The Spec, but for document frequencies."""
        keyed: dict[str, Any] = {"base_hash": KEYED, "key_id": self.secret.id} if self.secret else {}
        return spec_for(columns, self.measure, **self.fields, **keyed)


class Prepared(NamedTuple):
    """Everything that a job needs."""

    columns: Columns
    spec: Spec
    resources: SpecResources
    statuses: Mapping[str, FileStatus] = MappingProxyType({})
    """The statuses of the files that were read, by path: the job must find the same."""


def spec_for(columns: Columns, measure: str | None, spec: Spec | None = None, **fields: Any) -> Spec:
    """A Spec that goes with the columns: the given one, or one of the measure."""
    if spec is None:
        vectors = columns.vector is not None
        if measure == "cosine" and not vectors:
            raise UsageError("measure cosine compares vectors: name their column with --vector, or vector=")
        unit = {"unit": "vector", "n": columns.dimensions} if vectors else {}
        spec = Spec(measure=measure or ("cosine" if vectors else "jaccard"), **{**fields, **unit})
    if measure is not None and measure != spec.measure:
        raise UsageError(f"measure={measure!r} contradicts the Spec's {spec.measure!r}")
    if (columns.vector is not None) != (spec.unit == "vector"):
        raise UsageError(f"measure {spec.measure} compares {'vectors: name their column' if spec.unit == 'vector' else 'text'}")
    if columns.vector is not None and columns.dimensions != spec.n:
        raise UsageError(f"the vectors have {columns.dimensions} numbers, the Spec says {spec.n}")
    return spec


Count = Callable[[Counting, float], DocumentFrequencies]
"""In how many documents each shingle occurs, of those in more than a share of them."""


def prepare(
    inputs: tuple[str, ...],
    columns: Columns,
    asked: Asked,
    on_error: str,
    workers: int,
    out: Path,
    progress: Progress,
    count: Count = count_frequencies,
    check: Callable[[Spec], object] = lambda spec: None,
    selection: Selection | None = None,
) -> Prepared:
    """Looks at the files as far as needed; of a saved run, its own Spec and document frequencies are taken.

    Args:
        inputs: Files, or the folder of a saved run.
        columns: The parts of them that are read.
        asked: The parameters from which the Spec is made.
        on_error: `quarantine` or `fail`, for rows that cannot be read.
        workers: Number of threads.
        out: The output of the run; shingles are counted in its work folder.
        progress: Receives progress updates.
        count: Counts shingles, on one machine or over Spark.
        check: Raises UsageError if the rest of the request is invalid with a Spec. It is called before shingles are counted.
        selection: Which files of input folders are read.

    Raises:
        UsageError: If the request is invalid. Nothing was written then.
    """
    if (saved := Saved.find(inputs)) is not None:
        if asked.max_df is not None or asked.cut_list is not None:
            raise UsageError(f"{saved.folder} is sketched already; a frequency cut is made when its inputs are sketched")
        if asked.secret is not None and saved.spec.base_hash != KEYED:
            raise UsageError(
                f"--key-file contradicts the saved run {saved.folder}, which was hashed without a key; leave it out"
            )
        check(saved.spec)
        return Prepared(columns, saved.spec, SpecResources.read(saved.folder, saved.spec, asked.secret))
    if any("://" in given for given in inputs):
        progress.stage("list inputs", None)
    corpus = FileCorpus.open(inputs, on_error, selection=selection)
    corpus.check(columns)
    columns = with_dimensions(corpus, columns)
    require_apart(out, [*inputs, *(file.path for file in corpus.files)])
    counting = Counting(
        corpus, columns, asked.spec(columns), SpecResources(asked.secret), workers, work_folder_of(out), progress
    )
    _check_weights(asked, counting.spec)
    check(counting.spec)

    def count_in_work_folder(counting: Counting, share: float) -> DocumentFrequencies:
        with _room_for_counting(out):
            return count(counting, share)

    spec, cut = _cut(asked, counting, count_in_work_folder)
    spec, frequencies = _weights(asked, counting, spec, count_in_work_folder)
    return Prepared(columns, spec, SpecResources(asked.secret, frequencies, cut), corpus.statuses)


@contextmanager
def _room_for_counting(out: Path) -> Iterator[None]:
    """Holds the work folder of an output while shingles are counted in it; a run that was left there stays."""
    claim = Claim.take(out, "nearkin, which is counting shingles")
    try:
        yield
    finally:
        if (claim.path / MANIFEST).exists():
            claim.release()
        else:
            claim.remove()


def _cut(asked: Asked, counting: Counting, count: Count) -> tuple[Spec, DocumentFrequencies | None]:
    if asked.max_df is not None and asked.cut_list is not None:
        raise UsageError(f"max_df={asked.max_df} and the cut list {asked.cut_list} exclude each other")
    if asked.cut_list is not None:
        cut = DocumentFrequencies.read(asked.cut_list, counting.spec)
    elif asked.max_df is not None:
        cut = count_cut(asked.max_df, counting, count)
    else:
        return counting.spec, None
    return replace(counting.spec, cut=cut.fingerprint), cut


def count_cut(max_df: float, counting: Counting, count: Count = count_frequencies) -> DocumentFrequencies:
    """The shingles of more than a share of the documents, and of at least LEAST_CUT documents.

    Raises:
        UsageError: The share is none, or documents have no shingles.
    """
    require_cut(max_df, counting.spec)
    return cut_of(count(counting, max_df), max_df)


def require_cut(max_df: float, spec: Spec) -> None:
    """It is a share, of documents that have shingles."""
    if not 0 < max_df < 1:
        raise UsageError(f"max_df={max_df} is outside 0 to 1 (exclusive): the share of documents from which a shingle is cut")
    if spec.unit == "vector":
        raise UsageError(f"max_df={max_df} cuts shingles; vectors have none")


def cut_of(counted: DocumentFrequencies, max_df: float) -> DocumentFrequencies:
    """The shingles that a cut leaves out."""
    return counted.above(max(max_df, (LEAST_CUT - 1) / max(counted.documents, 1)))


def _check_weights(asked: Asked, spec: Spec) -> None:
    if asked.weights not in (None, "tf", "tfidf"):
        raise UsageError(f"weights={asked.weights!r} is not one of tf, tfidf")
    if asked.weights is not None and spec.measure != "simhash":
        raise UsageError(f"weights={asked.weights!r} is of measure simhash, not {spec.measure}")
    if asked.weights != "tfidf" and asked.frequencies is not None:
        raise UsageError(f"frequencies {asked.frequencies} need weights='tfidf'")


def _weights(asked: Asked, counting: Counting, spec: Spec, count: Count) -> tuple[Spec, DocumentFrequencies | None]:
    if asked.weights != "tfidf":
        return spec, None
    counted = count(counting, 0.0) if asked.frequencies is None else DocumentFrequencies.read(asked.frequencies, spec)
    return replace(spec, weights="tfidf", frequencies=counted.fingerprint), counted
