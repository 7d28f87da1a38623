"""The request of a run over files: its inputs, its settings and its output."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.input_manifest import HashedPart
from nearkin.corpus.inputs import Selection
from nearkin.engine.chosen_settings import ChosenSettings
from nearkin.engine.decisions import require_decidable
from nearkin.engine.keywords import RunParameters
from nearkin.engine.options import RunOptions
from nearkin.engine.saved_sets import can_save_sets
from nearkin.engine.second_measure import vector_columns
from nearkin.errors import UsageError
from nearkin.runs.document_output import NONE, DocumentOutput, KeptCutRequest
from nearkin.runs.extension import Extension
from nearkin.runs.purge_request import PurgeRequest
from nearkin.runtime.executor import Executor
from nearkin.runtime.files import Readers
from nearkin.runtime.outputs import require_apart, work_folder_of
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.stages.measures import measure_of
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.texts.passages.cutting.request import CUT_SPANS
from nearkin.texts.passages.lines.request import LinesRequest


@dataclass(frozen=True)
class FileJob:
    """A request to write what is made of the documents of files.

    Attributes:
        inputs: Paths, globs, folders and URLs; or the folder of one saved run.
        out: The output folder or file.
        columns: The columns of the inputs that are read.
        overwrite: Whether an existing output is replaced.
        on_error: `quarantine` or `fail`, for rows and files that cannot be read.
        selection: The rules that decide which files of input folders are read.
        readers: The users who may read the output.
    """

    inputs: tuple[str, ...]
    out: Path
    columns: Columns
    overwrite: bool = field(default=False, kw_only=True)
    on_error: str = field(default="quarantine", kw_only=True)
    selection: Selection = field(default_factory=Selection, kw_only=True)
    readers: Readers = field(default=Readers.OWNER, kw_only=True)


@dataclass(frozen=True)
class SpecJob(FileJob):
    """A request to sketch, to count or to block the documents of files.

    Attributes:
        parameters: The options of the Spec.
        workers: The number of threads.
    """

    parameters: RunParameters
    workers: int = field(default=2, kw_only=True)


@dataclass(frozen=True)
class Job(FileJob):
    """A request to run `dedup`, `pairs` or another command with a work folder over files.

    Attributes:
        settings: The parameters of the run.
        annotate: Whether all rows are kept and get cluster columns. Otherwise removed rows are
            dropped.
        save_signatures: Whether signatures and band keys are kept in the output.
        save_hashes: Whether sets of shingle hashes are kept beside the signatures.
        documents: What the output of `dedup` holds of the documents.
        resume: Whether an interrupted run is resumed.
        quoted: The number of the largest clusters that report.json quotes. The page shows 20.
        resources: The hash key and the data that the Spec refers to. The key is never recorded.
        corpus: The corpus of the inputs, if they were opened before. The run fails if files that
            were read have changed.
        hash_inputs: The part of the content of inputs that is hashed to detect changes.
        command_line: The command line that made the job, without passwords. Empty for the library.
        against: Paths, globs, folders and URLs of the reference, folders of finished runs, and URLs
            of indexes.
        only_against: Whether the documents of the inputs are not compared with each other.
        scope: Scope of the indexes of the reference, or None for the default one.
        decisions: File of decisions about pairs of documents, or None without decisions.
        blocklist: The file of a blocklist, or None.
        cuts: The request to cut passages or repeated lines of the kept documents, or None.
        purge: The request to repeat a run without documents like given ones, or None.
        executor: Does the tasks of the run, or None for threads of this process.
        chosen: The choice of the settings, if nobody gave any.
        extension: The finished run that the run extends, or None.
    """

    settings: RunOptions
    annotate: bool = field(default=False, kw_only=True)
    save_signatures: bool = field(default=False, kw_only=True)
    save_hashes: bool = field(default=False, kw_only=True)
    documents: DocumentOutput = field(default_factory=DocumentOutput, kw_only=True)
    resume: bool = field(default=False, kw_only=True)
    quoted: int = field(default=20, kw_only=True)
    resources: SpecResources = field(default=NO_RESOURCES, kw_only=True)
    corpus: FileCorpus | None = field(default=None, kw_only=True)
    hash_inputs: HashedPart = field(default=HashedPart.SAMPLED, kw_only=True)
    command_line: str = field(default="", kw_only=True)
    against: tuple[str, ...] = field(default=(), kw_only=True)
    only_against: bool = field(default=False, kw_only=True)
    scope: str | None = field(default=None, kw_only=True)
    decisions: Path | None = field(default=None, kw_only=True)
    blocklist: Path | None = field(default=None, kw_only=True)
    cuts: KeptCutRequest | None = field(default=None, kw_only=True)
    purge: PurgeRequest | None = field(default=None, kw_only=True)
    executor: Executor | None = field(default=None, kw_only=True)
    chosen: ChosenSettings | None = field(default=None, kw_only=True)
    extension: Extension | None = field(default=None, kw_only=True)

    def open_corpus(self) -> FileCorpus:
        """Returns the input files as a corpus, and finds them if they were not opened before."""
        corpus = self.corpus
        if corpus is None:
            corpus = FileCorpus.open(self.inputs, self.on_error, selection=self.selection)
        corpus.set_ahead(self.settings.memory // 32)
        return corpus

    @property
    def removes_documents(self) -> bool:
        """True if documents are missing from the output because they are duplicates."""
        keeps_all = self.annotate or self.documents.weights is not None
        return not keeps_all and self.documents.output != NONE and self.purge is None

    @property
    def work_folder(self) -> Path:
        """The folder that holds the intermediate files until the run is complete."""
        return work_folder_of(self.out)

    def identity(self, command: str, **other: object) -> dict[str, object]:
        """Returns the parameters that must be unchanged for a run to be resumed."""
        only = {"only_against": self.only_against} if self.against else {}
        hashes = {"save_hashes": True} if self.save_hashes else {}
        extends = {} if self.extension is None else {"extend": self.extension.identity}
        cuts: dict[str, object] = {}
        if self.cuts is not None:
            name = "lines" if isinstance(self.cuts, LinesRequest) else "passages"
            cuts = {name: self.cuts.to_record()}
        return {
            **other,
            **only,
            **extends,
            **cuts,
            **self.documents.to_record(),
            "command": command,
            "spec": json.loads(self.settings.spec.to_json()),
            "parameters": self.settings.parameters(),
            "columns": self.columns.to_record(),
            "annotate": self.annotate,
            "save_signatures": self.save_signatures,
            **hashes,
        }


def check_job(job: Job, corpus: FileCorpus) -> None:
    """Checks everything that can be checked before anything is written."""
    require_apart(job.out, [*job.inputs, *(file.path for file in corpus.files)])
    if job.annotate:
        all_kept = "all rows are kept with annotations"
        job.settings.require_defaults(name_flag("annotate"), {"keep_up_to": all_kept})
    if job.save_hashes:
        _require_savable_hashes(job)
    has_reference = bool(job.against)
    if job.decisions is not None:
        require_decidable(job.settings, has_reference=has_reference)
        require_apart(job.out, [str(job.decisions)])
    compares_others = has_reference or job.blocklist is not None or job.purge is not None
    if job.cuts is not None:
        # A run without passages does not load what cuts them.
        from nearkin.runs.passage_cuts import require_cuttable_copies

        require_cuttable_copies(job.cuts, job.columns, job.documents, annotate=job.annotate)
        corpus.require_new_columns((CUT_SPANS,), job.columns)
        corpus.require_replaceable([job.columns.source], job.columns)
    job.documents.require_usable(corpus, job.columns, job.settings, compares_others=compares_others)
    corpus.check(job.columns)
    second_measure = job.settings.parsed_second_measure
    if second_measure is not None:
        corpus.check(vector_columns(job.columns, second_measure.column))
    require_sendable(job.resources, job.executor)
    # Creating a sketcher fails if the key or the data that the Spec refers to are missing.
    measure_of(job.settings.spec, job.resources, job.settings.distance).sketcher()


def require_sendable(resources: SpecResources, executor: Executor | None) -> None:
    """Requires that tasks of an executor can have the resources of a run."""
    if resources.secret is None or executor is None or executor.shares_memory:
        return
    raise UsageError(
        "a hash key is not sent to the tasks of other machines; leave out "
        f"{name_setting('executor')}, or the key"
    )


def _require_savable_hashes(job: Job) -> None:
    """Requires that sets of shingle hashes can be kept."""
    if not job.save_signatures:
        raise UsageError(
            f"{name_flag('save_hashes')} keeps shingle hashes beside signatures; add "
            f"{name_flag('save_signatures')}"
        )
    measure = job.settings.spec.measure
    if not can_save_sets(job.settings):
        raise UsageError(
            f"{name_flag('save_hashes')} is for documents that are compared by their sets of "
            f"shingles alone, and {name_setting('measure', measure)} is not; leave it out"
        )
