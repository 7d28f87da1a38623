"""Signatures of files, as a signature file."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nearkin.corpus import Batch, FileCorpus, detect_dimensions, make_ids
from nearkin.corpus.document_count import estimate_documents
from nearkin.corpus.rejects import count_rejections
from nearkin.engine.document_frequencies import FrequencyRequest
from nearkin.engine.parameters import resources_of, spec_of
from nearkin.errors import UsageError
from nearkin.reports.run_warnings import warn_of_inputs, warn_of_rejections
from nearkin.runs.job import SpecJob
from nearkin.runs.output import require_file_output
from nearkin.runs.resolved_run import complete_spec, count_in_work_folder
from nearkin.runs.run_record import is_run_folder
from nearkin.runs.table_files import TableFile, TableFormat
from nearkin.runtime.files import disk_errors, set_readers
from nearkin.runtime.outputs import RESULT, claimed, work_folder_of
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.settings.spec import Spec
from nearkin.stages.measures import measure_of
from nearkin.stages.sketch.resources import (
    CUT_FILE,
    FREQUENCIES_FILE,
    SpecResources,
    is_frequencies_file,
)
from nearkin.stages.sketch.signature_file import SignatureWriter, is_signature_file
from nearkin.stages.sketch.sketcher import Sketches


@dataclass(frozen=True, kw_only=True)
class SketchSummary:
    """The outcome of `nearkin lab sketch`.

    Attributes:
        out: Signature file.
        documents: Number of signatures.
        reasons: Number of rejected rows by reason.
        warnings: Warnings about inputs.
        spec: Spec of the signatures.
        account: Sentence with the numbers of files by kind.
    """

    out: Path
    documents: int
    reasons: Mapping[str, int]
    warnings: Sequence[str]
    spec: Spec
    account: str

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


def run_sketch(job: SpecJob, progress: Progress) -> SketchSummary:
    """Writes the signatures of files, unless all their rows are rejected. Counts the reasons."""
    if is_run_folder(job.inputs[0]):
        raise UsageError(
            f"{job.inputs[0]} is the output of a run; sketch the inputs that it was made from"
        )
    corpus = FileCorpus.open(job.inputs, job.on_error, selection=job.selection)
    inputs = [*job.inputs, *(file.path for file in corpus.files)]
    require_signature_output(job.out, inputs, overwrite=job.overwrite)
    columns = detect_dimensions(corpus, job.columns)
    corpus.check(columns)
    counting = FrequencyRequest(
        corpus,
        columns,
        spec_of(job.parameters, columns),
        resources_of(job.parameters),
        job.workers,
        work_folder_of(job.out),
        progress,
    )
    spec, resources = complete_spec(
        counting, job.parameters, partial(count_in_work_folder, job.out)
    )
    resource_files = _resource_files(job.out, resources)
    for path in resource_files.values():
        require_file_output(
            path, is_frequencies_file, "a table of shingles", inputs, overwrite=job.overwrite
        )
    sketchers = ObjectPool(measure_of(spec, resources).sketcher)
    # Creating a sketcher fails if the key or the data that the Spec refers to are missing.
    sketchers.use(lambda tool: None)

    def sketch(batch: Batch) -> tuple[Batch, Sketches]:
        documents = batch.documents[columns.content]
        return batch, sketchers.use(lambda tool: tool.sketch(documents))

    documents = 0
    rejected = Counter[str]()
    progress.stage("sketch", estimate_documents(corpus, columns))
    with (
        claimed(job.out, "nearkin lab sketch", replaces=job.overwrite) as claim,
        disk_errors(job.out.parent),
    ):
        staged = claim.path / RESULT
        with SignatureWriter(staged, spec) as writer:
            for batch, sketches in ordered_map(sketch, corpus.batches(columns), job.workers):
                ids = make_ids(batch, columns, corpus.names)
                writer.add(ids, sketches.signatures, sketches.shingles)
                documents += len(batch.rows)
                rejected.update(count_rejections(batch.rejected))
                progress.advance(len(batch.rows))
        if documents or not rejected:
            resources.write(claim.path, spec)
            for name, path in resource_files.items():
                set_readers(claim.path / name, job.readers)
                claim.publish_file(claim.path / name, path)
            set_readers(staged, job.readers)
            claim.publish_file(staged)
    return SketchSummary(
        out=job.out,
        documents=documents,
        reasons=dict(sorted(rejected.items())),
        warnings=warn_of_inputs(corpus, columns) + warn_of_rejections(rejected.total(), rejected),
        spec=spec,
        account=corpus.describe_files(columns),
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


def _resource_files(out: Path, resources: SpecResources) -> dict[str, Path]:
    """Returns the files beside the signature file that hold the data which its Spec refers to.

    The keys are the names of the files in the work folder.
    """
    tables = {FREQUENCIES_FILE: resources.frequencies, CUT_FILE: resources.cut}
    return {
        name: out.with_name(f"{out.name}.{name}")
        for name, table in tables.items()
        if table is not None
    }
