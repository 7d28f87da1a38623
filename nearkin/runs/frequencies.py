"""Document frequencies of files, as a file that runs and indexes use."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkin.corpus import FileCorpus
from nearkin.engine.document_frequencies import FrequencyRequest, count_frequencies
from nearkin.engine.parameters import resources_of, spec_of
from nearkin.errors import UsageError
from nearkin.reports.run_warnings import warn_of_inputs
from nearkin.runs.job import SpecJob
from nearkin.runs.output import require_file_output, require_suffix
from nearkin.runtime.outputs import published_file
from nearkin.runtime.progress import Progress
from nearkin.stages.sketch.resources import is_frequencies_file


@dataclass(frozen=True, kw_only=True)
class FrequencySummary:
    """The outcome of `nearkin lab frequencies`.

    Attributes:
        out: File of document frequencies.
        documents: Number of counted documents.
        shingles: Number of shingles that two or more documents contain.
        fingerprint: Fingerprint of the document frequencies.
        account: Sentence with the numbers of files by kind.
        warnings: Warnings about inputs.
    """

    out: Path
    documents: int
    shingles: int
    fingerprint: str
    account: str
    warnings: Sequence[str]

    def to_json(self) -> dict[str, object]:
        """Returns the summary as `--json` prints it."""
        return {
            "out": str(self.out),
            "documents": self.documents,
            "shingles": self.shingles,
            "fingerprint": self.fingerprint,
            "warnings": list(self.warnings),
        }


def run_frequencies(job: SpecJob, progress: Progress) -> FrequencySummary:
    """Writes the document frequencies of files, if they hold a document."""
    if job.columns.vector is not None:
        raise UsageError(
            f"column {job.columns.vector!r} holds vectors, and vectors have no shingles to count; "
            "name a column of texts or tokens"
        )
    require_suffix(job.out, ".arrow", "a table of shingles")
    spec = spec_of(job.parameters, job.columns)
    corpus = FileCorpus.open(job.inputs, job.on_error, selection=job.selection)
    inputs = [*job.inputs, *(file.path for file in corpus.files)]
    require_file_output(
        job.out, is_frequencies_file, "a table of shingles", inputs, overwrite=job.overwrite
    )
    corpus.check(job.columns)
    with published_file(
        job.out, "nearkin lab frequencies", job.readers, replaces=job.overwrite
    ) as staged:
        counting = FrequencyRequest(
            corpus,
            job.columns,
            spec,
            resources_of(job.parameters),
            job.workers,
            staged.parent,
            progress,
        )
        counted = count_frequencies(counting)
        if counted.documents:
            counted.write(staged, spec)
    return FrequencySummary(
        out=job.out,
        documents=counted.documents,
        shingles=len(counted.hashes),
        fingerprint=counted.fingerprint,
        account=corpus.describe_files(job.columns),
        warnings=warn_of_inputs(corpus, job.columns),
    )
