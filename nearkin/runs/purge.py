"""The result of a finished run without the documents that are like given ones.

The run is repeated from its record, with a blocklist of the given documents. So the result is that
of a run whose kept documents were elected without them, and it is written, resumed and recorded as
that of every run. The inputs and the output of the finished run are not changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus.file_names import has_hidden_password
from nearkin.engine.blocking import require_blockable, require_one_measure
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.options import RunOptions
from nearkin.errors import IncompatibleError, UsageError
from nearkin.runs.dedup import reference_request_of, run_dedup
from nearkin.runs.document_output import KEPT, DocumentOutput, KeptCutRequest
from nearkin.runs.extension import CLUSTERS
from nearkin.runs.job import Job
from nearkin.runs.purge_request import PurgeRequest, has_given_documents
from nearkin.runs.reference import open_references
from nearkin.runs.run_record import RUN, FileRun, RunRecord, read_run_record
from nearkin.runs.saved import SIGNATURES, SavedRun
from nearkin.runtime.outputs import require_apart
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.decisions import read_decisions
from nearkin.settings.keys import HashKey
from nearkin.stages.sketch.resources import SpecResources
from nearkin.texts.passages.cutting.request import CutUnit, PassageRequest
from nearkin.texts.passages.lines.request import Counted, LinesAction, LinesRequest


@dataclass(frozen=True)
class PurgedRow:
    """A document of a run that is like a given one.

    Attributes:
        id: Id of the document.
        like: Id of the given document that it is most similar to.
        similarity: Exact similarity to it.
        was_kept: Whether the finished run kept it. Otherwise it was removed as a duplicate.
    """

    id: str
    like: str
    similarity: float
    was_kept: bool


@dataclass(frozen=True)
class PurgedRun:
    """The outcome of a purge of a run.

    Attributes:
        record: Record of the new result.
        purged: Documents that are like a given one, in the order of the inputs.
    """

    record: RunRecord
    purged: tuple[PurgedRow, ...]

    @property
    def compared(self) -> int:
        """The number of documents that were compared."""
        sketched = self.record.stats.sketch
        return 0 if sketched is None else sketched.documents

    def to_json(self) -> dict[str, object]:
        """Returns the result as `--json` prints it."""
        return {
            "purged": [dict(row.__dict__) for row in self.purged],
            "removed": len(self.purged),
            "compared": self.compared,
            "counts": dict(self.record.counts),
        }


def purge_run(
    purge: PurgeRequest,
    out: Path,
    progress: Progress,
    secret: HashKey | None = None,
    execution: Mapping[str, int] | None = None,
    **fields: Any,
) -> PurgedRun:
    """Writes the result of a finished run without the documents that are like given ones.

    All documents of the inputs are compared with the given ones exactly, kept or not. The other
    documents of a cluster whose kept document is purged elect another one.

    Args:
        secret: The key of the Spec, or None.
        execution: Memory and workers, which do not decide the result, by the names of their
            options.
        fields: Further fields of the job that do not decide the result, for example `resume`.
    """
    folder = purge.run
    record = read_run_record(folder / RUN)
    repeated = _job_of(purge, record, out, secret, execution or {})
    job = replace(repeated, **fields)
    _require_same_reference(folder, record, job)
    require_apart(out, [str(folder), *purge.like.list_files()])
    finished = SavedRun(folder, record).read_clusters(["id", "kept"])
    return PurgedRun(run_dedup(job, progress), _read_purged(out, finished))


def _read_purged(out: Path, finished: pa.Table) -> tuple[PurgedRow, ...]:
    """Returns the purged documents of a result."""
    names = ["id", "similarity", "blocked_by", "kind"]
    clusters = pq.read_table(out / CLUSTERS, columns=names)
    blocked = clusters.filter(pc.equal(clusters["kind"].cast(pa.string()), "blocked"))
    was_kept = finished["kept"].take(pc.index_in(blocked["id"], finished["id"]))
    rows = blocked.append_column("was_kept", was_kept)
    return tuple(
        PurgedRow(row["id"], row["blocked_by"], row["similarity"], row["was_kept"])
        for row in rows.to_pylist()
    )


def _job_of(
    purge: PurgeRequest,
    record: RunRecord,
    out: Path,
    secret: HashKey | None,
    execution: Mapping[str, int],
) -> Job:
    """Returns the job that repeats a finished run with a blocklist of the given documents."""
    folder = purge.run
    files = record.require_files(folder)
    _require_repeatable(folder, files)
    spec = record.spec
    settings = RunOptions.from_parameters(record.parameters, spec, **execution)
    resources = SpecResources.read(folder, spec, secret)
    spec.require_key(secret)
    columns = record.columns_of(folder)
    _require_blockable(folder, settings, resources)
    against = files.against
    previous = files.blocklist
    return Job(
        _inputs_of(folder, record),
        out,
        columns,
        settings,
        annotate=files.annotate,
        save_signatures=files.save_signatures,
        save_hashes=files.save_hashes,
        documents=DocumentOutput.from_record(files),
        resources=resources,
        against=() if against is None else tuple(against.paths),
        only_against=against is not None and against.only,
        scope=None if against is None else against.scope,
        decisions=_decisions_of(folder, files),
        blocklist=None if previous is None else Path(str(previous.path)),
        cuts=_cuts_of(record),
        purge=purge,
    )


def _require_repeatable(folder: Path, files: FileRun) -> None:
    """Requires that a run was one of `nearkin dedup` whose references can be opened again."""
    if files.command != "dedup":
        raise UsageError(
            f"{folder} cannot be purged: it was made by {files.command}; run nearkin dedup "
            f"on its inputs with {name_setting('blocklist')}"
        )
    if files.document_weights is not None:
        raise UsageError(
            f"{folder} cannot be purged: it was made with {name_setting('document_weights')}, "
            "which keeps all documents; run nearkin dedup on its inputs with "
            f"{name_setting('blocklist')}, and weigh its result"
        )
    against = files.against
    hidden = [] if against is None else list(filter(has_hidden_password, against.paths))
    if hidden:
        raise UsageError(
            f"{folder} cannot be purged: its reference {hidden[0]} was given with a password, "
            f"which is not recorded; run nearkin dedup on its inputs with "
            f"{name_setting('blocklist')}"
        )
    previous = files.blocklist
    if previous is not None and previous.like is not None:
        raise UsageError(
            f"{folder} cannot be purged again: it has no list of the documents that were purged "
            f"before; purge {previous.purged} by the documents of both purges"
        )


def _require_blockable(folder: Path, settings: RunOptions, resources: SpecResources) -> None:
    """Requires that the documents of a run can be compared with given ones."""
    try:
        if has_given_documents(settings):
            require_one_measure(settings)
        else:
            require_blockable(settings, Blocklist(settings.spec, resources))
    except IncompatibleError:
        raise
    except UsageError as error:
        raise UsageError(f"{folder} cannot be purged: {error}") from error


def _inputs_of(folder: Path, record: RunRecord) -> tuple[str, ...]:
    """Returns the inputs of the repeated run: the finished one with signatures, or its files."""
    has_signatures = (folder / SIGNATURES).is_dir()
    try:
        corpus = SavedRun(folder, record).open_corpus("quarantine", uses_signatures=has_signatures)
    except UsageError as error:
        raise UsageError(
            f"{error}; to purge the kept documents alone, run nearkin dedup {folder / KEPT} with "
            f"{name_setting('blocklist')}"
        ) from error
    if has_signatures:
        return (str(folder),)
    return tuple(file.path for file in corpus.files)


def _require_same_reference(folder: Path, record: RunRecord, job: Job) -> None:
    """Requires that the reference of a run is as it was. An index may change."""
    recorded = record.require_files(folder).against
    if recorded is None:
        return
    try:
        references = open_references(reference_request_of(job))
        change = None if references is None else references.find_change(recorded.files)
    except UsageError as error:
        change = str(error)
    if change is not None:
        raise UsageError(
            f"{folder} cannot be purged: {change}; restore the reference, or run nearkin dedup on "
            f"its inputs with {name_setting('against')} and {name_setting('blocklist')}"
        )


def _decisions_of(folder: Path, files: FileRun) -> Path | None:
    """Returns the file of the decisions that a run was made with, or None."""
    recorded = files.decisions
    if recorded is None:
        return None
    path = Path(recorded.path)
    remedy = (
        f"restore the file, or run nearkin dedup on its inputs with {name_setting('decisions')} "
        f"and {name_setting('blocklist')}"
    )
    try:
        decisions = read_decisions(path)
    except UsageError as error:
        raise UsageError(f"{folder} cannot be purged: {error}; {remedy}") from error
    if decisions.fingerprint != recorded.fingerprint:
        raise UsageError(
            f"{folder} cannot be purged: the decisions in {path} are not those of the run; {remedy}"
        )
    return path


def _cuts_of(record: RunRecord) -> KeptCutRequest | None:
    """Returns the request to cut passages or lines that a run was made with, or None."""
    recorded = record.lines
    if recorded is not None:
        return LinesRequest(
            CutUnit(recorded["unit"]),
            recorded["least"],
            LinesAction(recorded["action"]),
            counted=Counted(recorded["counted"]),
        )
    recorded = record.passages
    if recorded is None:
        return None
    least = f"{recorded['min_tokens']}:{recorded.get('unit', 'words')}"
    return PassageRequest.parse(least, recorded["cut"], recorded["min_left"])
