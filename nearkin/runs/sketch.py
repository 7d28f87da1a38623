"""Signatures of files, as a signature file."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearkin.corpus import Batch, Columns, FileCorpus, make_ids
from nearkin.corpus.document_count import estimate_documents
from nearkin.corpus.inputs import Selection
from nearkin.corpus.rejects import count_rejections
from nearkin.errors import UsageError
from nearkin.reports.run_warnings import warn_of_inputs, warn_of_rejections
from nearkin.runs.output import require_file_output
from nearkin.runs.run_record import is_run_folder
from nearkin.runs.table_files import TableFile, TableFormat
from nearkin.runtime.files import Readers, disk_errors, set_readers
from nearkin.runtime.outputs import RESULT, claimed
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of
from nearkin.stages.sketch.resources import (
    CUT_FILE,
    FREQUENCIES_FILE,
    NO_RESOURCES,
    SpecResources,
    is_frequencies_file,
)
from nearkin.stages.sketch.signature_file import SignatureWriter, is_signature_file
from nearkin.stages.sketch.sketcher import Sketches


@dataclass(frozen=True)
class SketchJob:
    """A request to write the signatures of files into a signature file.

    Attributes:
        inputs: Paths, globs, folders and URLs.
        out: The signature file.
        columns: The columns of the inputs that are read.
        spec: The Spec of the signatures.
        workers: The number of threads.
        overwrite: Whether an existing signature file is replaced.
        on_error: `quarantine` or `fail`, for rows and files that cannot be read.
        resources: The hash key and the data that the Spec refers to.
        selection: The rules that decide which files of input folders are read.
        readers: The users who may read the output.
    """

    inputs: tuple[str, ...]
    out: Path
    columns: Columns
    spec: Spec
    workers: int = field(default=2, kw_only=True)
    overwrite: bool = field(default=False, kw_only=True)
    on_error: str = field(default="quarantine", kw_only=True)
    resources: SpecResources = field(default=NO_RESOURCES, kw_only=True)
    selection: Selection = field(default_factory=Selection, kw_only=True)
    readers: Readers = field(default=Readers.OWNER, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class SketchSummary:
    """The outcome of `nearkin sketch`.

    Attributes:
        out: Signature file.
        documents: Number of signatures.
        reasons: Number of rejected rows by reason.
        warnings: Warnings about inputs.
        spec: Spec of the signatures.
    """

    out: Path
    documents: int
    reasons: Mapping[str, int]
    warnings: Sequence[str]
    spec: Spec

    @property
    def rejected(self) -> int:
        """The number of rejected rows."""
        return sum(self.reasons.values())

    def to_json(self) -> dict[str, object]:
        """Returns the summary as `--json` prints it."""
        return {
            "out": str(self.out),
            "documents": self.documents,
            "rejected": self.rejected,
            "reasons": self.reasons,
            "warnings": list(self.warnings),
            "spec": json.loads(self.spec.to_json()),
            "spec_fingerprint": self.spec.fingerprint,
        }


def run_sketch(job: SketchJob, progress: Progress) -> SketchSummary:
    """Writes the signatures of files. Rejected rows are counted by their reasons."""
    if is_run_folder(job.inputs[0]):
        raise UsageError(
            f"{job.inputs[0]} is the output of a run; sketch the inputs that it was made from"
        )
    resource_files = _resource_files(job)
    corpus = FileCorpus.open(job.inputs, job.on_error, selection=job.selection)
    _require_outputs(job, corpus, resource_files)
    corpus.check(job.columns)
    sketchers = ObjectPool(measure_of(job.spec, job.resources).sketcher)
    # Creating a sketcher fails if the key or the data that the Spec refers to are missing.
    sketchers.use(lambda tool: None)

    def sketch(batch: Batch) -> tuple[Batch, Sketches]:
        documents = batch.documents[job.columns.content]
        return batch, sketchers.use(lambda tool: tool.sketch(documents))

    documents = 0
    rejected = Counter[str]()
    progress.stage("sketch", estimate_documents(corpus, job.columns))
    with (
        claimed(job.out, "nearkin sketch", replaces=job.overwrite) as claim,
        disk_errors(job.out.parent),
    ):
        staged = claim.path / RESULT
        with SignatureWriter(staged, job.spec) as writer:
            for batch, sketches in ordered_map(sketch, corpus.batches(job.columns), job.workers):
                ids = make_ids(batch, job.columns, corpus.names)
                writer.add(ids, sketches.signatures, sketches.shingles)
                documents += len(batch.rows)
                rejected.update(count_rejections(batch.rejected))
                progress.advance(len(batch.rows))
        job.resources.write(claim.path, job.spec)
        for name, path in resource_files.items():
            set_readers(claim.path / name, job.readers)
            claim.publish_file(claim.path / name, path)
        set_readers(staged, job.readers)
        claim.publish_file(staged)
    return SketchSummary(
        out=job.out,
        documents=documents,
        reasons=dict(sorted(rejected.items())),
        warnings=warn_of_inputs(corpus, job.columns)
        + warn_of_rejections(rejected.total(), rejected),
        spec=job.spec,
    )


def require_signature_output(out: Path, inputs: Iterable[Path | str], *, overwrite: bool) -> None:
    """Requires that a signature file can be written."""
    named = TableFile.parse(out)
    if named is not None and named.format is not TableFormat.ARROW:
        raise UsageError(
            f"cannot write signatures to {str(out)!r}: a signature file is an Arrow file; choose "
            f"an {name_setting('out')} with the suffix .arrow"
        )
    require_file_output(out, is_signature_file, "a signature file", inputs, overwrite=overwrite)


def _require_outputs(job: SketchJob, corpus: FileCorpus, resource_files: dict[str, Path]) -> None:
    """Requires that the signature file and the files beside it can be written."""
    inputs = [*job.inputs, *(file.path for file in corpus.files)]
    require_signature_output(job.out, inputs, overwrite=job.overwrite)
    for path in resource_files.values():
        require_file_output(
            path, is_frequencies_file, "a table of shingles", inputs, overwrite=job.overwrite
        )


def _resource_files(job: SketchJob) -> dict[str, Path]:
    """Returns the files beside the signature file that hold the data which its Spec refers to.

    The keys are the names of the files in the work folder.
    """
    tables = {FREQUENCIES_FILE: job.resources.frequencies, CUT_FILE: job.resources.cut}
    return {
        name: job.out.with_name(f"{job.out.name}.{name}")
        for name, table in tables.items()
        if table is not None
    }
