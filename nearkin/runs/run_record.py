"""The run record, run.json: what was requested, what was read, and what came out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NotRequired, Self, TypedDict

from nearkin.corpus import Columns
from nearkin.corpus.input_manifest import InputRecord
from nearkin.corpus.inputs import SkippedPath
from nearkin.corpus.table_versions import TableRecord
from nearkin.engine.stats import RunStats, SketchStats, StageRecords
from nearkin.errors import UsageError
from nearkin.quality.evaluate.audit import Audit
from nearkin.runtime.metrics import QualityMetrics
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec

RUN = "run.json"
"""The name of the run record in an output folder."""

DOCUMENT_RECORD = ("output", "codec", "sizes", "document_weights")
"""The entries about the documents in an output, which run.json has if they are not the defaults."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """The request of a run over files, apart from its Spec and its options.

    Attributes:
        command: Name of the command.
        columns: Columns of the inputs that were read.
        annotate: Whether all rows were kept and got cluster columns.
        save_signatures: Whether signatures and band keys were kept in the output.
        out: Output folder.
        save_hashes: Whether sets of shingle hashes were kept beside the signatures.
        documents: The values of `DocumentOutput`, as far as they differ from the defaults.
    """

    command: str
    columns: dict[str, Any]
    annotate: bool
    save_signatures: bool
    out: str
    save_hashes: bool = False
    documents: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunEnvironment:
    """The environment of a run over files. It does not decide the result.

    Attributes:
        memory: Bound on the memory, in bytes.
        workers: Number of threads.
        peak_memory: Measured peak of the memory, in bytes, or None if it was not measured.
    """

    memory: int
    workers: int
    peak_memory: int | None


class ReferenceRecord(TypedDict):
    """The reference of a run in run.json."""

    paths: Sequence[str]
    """The paths and URLs as requested, without passwords."""
    only: bool
    """True if the documents of the inputs were not compared with each other."""
    files: Sequence[Sequence[InputRecord]]
    """The files of each reference. Of a run whose signatures were used, its record and clusters."""
    tables: NotRequired[Sequence[TableRecord]]
    """The versions of the tables that these files belong to, if there are any."""
    scope: NotRequired[str]
    """The scope that was searched, if the reference has an index."""


class DecisionsRecord(TypedDict):
    """The decisions of a run in run.json."""

    path: str
    """The file as requested."""
    fingerprint: str
    """The hash of the decisions that counted."""


class BlocklistRecord(TypedDict):
    """The blocklist of a run in run.json."""

    path: NotRequired[str]
    """The path as requested, if the run had a file of a blocklist."""
    fingerprint: str
    """A hash of the entries."""
    purged: NotRequired[str]
    """The run that was repeated without the documents like given ones, if it was purged."""
    like: NotRequired[list[str]]
    """The files of the given documents, without passwords."""


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """The inputs of a run over files.

    Attributes:
        files: Input files, with the size, time and hash of each.
        skipped: Skipped files and folders. Only the first ones are listed.
        skipped_count: Number of all skipped files and folders.
        against: The reference, or None if the run has none.
        decisions: The decisions, or None if the run has none.
        blocklist: The blocklist, or None if the run has none.
        tables: Versions of the tables that the files belong to.
    """

    files: Sequence[InputRecord]
    skipped: Sequence[SkippedPath]
    skipped_count: int
    against: ReferenceRecord | None = None
    decisions: DecisionsRecord | None = None
    blocklist: BlocklistRecord | None = None
    tables: Sequence[TableRecord] = ()


@dataclass(frozen=True, kw_only=True)
class FileRun:
    """The part of a run record that only runs over files have.

    Attributes:
        request: Request of the run.
        environment: Engine, memory and threads of the run.
        inputs: Inputs of the run.
        spec_fingerprint: Fingerprint of the Spec.
        bands: Number of bands, or None if all pairs were compared.
        rows: Rows of a band, or None if all pairs were compared.
        seconds: Duration of all stages, in seconds.
        warnings: Warnings of the report.
    """

    request: RunRequest
    environment: RunEnvironment
    inputs: RunInputs
    spec_fingerprint: str
    bands: int | None
    rows: int | None
    seconds: float
    warnings: Sequence[str]

    def to_json(self) -> dict[str, object]:
        """Returns the entries of run.json."""
        against = {} if self.inputs.against is None else {"against": self.inputs.against}
        decided = self.inputs.decisions
        decisions = {} if decided is None else {"decisions": decided}
        blocklist = {} if self.inputs.blocklist is None else {"blocklist": self.inputs.blocklist}
        tables = {"tables": list(self.inputs.tables)} if self.inputs.tables else {}
        hashes = {"save_hashes": True} if self.request.save_hashes else {}
        return {
            "command": self.request.command,
            "columns": self.request.columns,
            "annotate": self.request.annotate,
            "save_signatures": self.request.save_signatures,
            **hashes,
            "out": self.request.out,
            **self.request.documents,
            "spec_fingerprint": self.spec_fingerprint,
            "bands": self.bands,
            "rows": self.rows,
            "memory": self.environment.memory,
            "workers": self.environment.workers,
            "peak_memory": self.environment.peak_memory,
            "inputs": list(self.inputs.files),
            **tables,
            **against,
            **decisions,
            **blocklist,
            "skipped": {
                "count": self.inputs.skipped_count,
                "first": [entry._asdict() for entry in self.inputs.skipped],
            },
            "seconds": self.seconds,
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Restores this part from the content of run.json."""
        return cls(
            request=RunRequest(
                command=values["command"],
                columns=values["columns"],
                annotate=values["annotate"],
                save_signatures=values["save_signatures"],
                save_hashes=values.get("save_hashes", False),
                out=values["out"],
                documents={name: values[name] for name in DOCUMENT_RECORD if name in values},
            ),
            environment=RunEnvironment(
                memory=values["memory"],
                workers=values["workers"],
                peak_memory=values["peak_memory"],
            ),
            inputs=RunInputs(
                files=values["inputs"],
                skipped=[
                    SkippedPath(entry["path"], entry["reason"])
                    for entry in values["skipped"]["first"]
                ],
                skipped_count=values["skipped"]["count"],
                against=values.get("against"),
                decisions=values.get("decisions"),
                blocklist=values.get("blocklist"),
                tables=values.get("tables", ()),
            ),
            spec_fingerprint=values["spec_fingerprint"],
            bands=values["bands"],
            rows=values["rows"],
            seconds=values["seconds"],
            warnings=values["warnings"],
        )


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The content of run.json.

    Attributes:
        version: Version of nearkin that executed the run.
        spec_json: Spec of the signatures, as a JSON object.
        parameters: Options that decide the result.
        counts: Numbers of documents that were read, kept, removed and rejected.
        stages: Statistics of the finished stages, by name.
        metrics: Quality metrics.
        files: Request, environment and inputs of a run over files. None for a result of the
            library.
        audit: Result of an audit as a JSON object, or None if the run was not audited.
        lost: Information that the run lost as a JSON object, or None if it was not measured.
        passages: Passages that were cut as a JSON object, or None if none were asked for.
        lines: Repeated lines that were cut as a JSON object, or None if none were asked for.
    """

    version: str
    spec_json: Mapping[str, object]
    parameters: dict[str, Any]
    counts: Mapping[str, int]
    stages: StageRecords
    metrics: QualityMetrics
    files: FileRun | None = None
    audit: Mapping[str, object] | None = None
    lost: Mapping[str, object] | None = None
    passages: Mapping[str, object] | None = None
    lines: Mapping[str, object] | None = None

    @property
    def spec(self) -> Spec:
        """The Spec of the signatures."""
        return Spec.from_json(json.dumps(self.spec_json))

    @property
    def stats(self) -> RunStats:
        """The statistics of the finished stages."""
        return RunStats.from_stages(self.stages)

    def with_audit(self, audit: Audit, metrics: QualityMetrics) -> "RunRecord":
        """Returns the record of an audited run."""
        return replace(self, audit=audit.to_dict(), metrics=metrics)

    def to_json(self) -> dict[str, object]:
        """Returns the content of run.json."""
        files = {} if self.files is None else self.files.to_json()
        audit = {} if self.audit is None else {"audit": self.audit}
        lost = {} if self.lost is None else {"information_lost": self.lost}
        passages = {} if self.passages is None else {"passages": self.passages}
        lines = {} if self.lines is None else {"lines": self.lines}
        return {
            "nearkin": self.version,
            "spec": self.spec_json,
            "parameters": self.parameters,
            "counts": self.counts,
            "stages": self.stages,
            "metrics": self.metrics.to_dict(),
            **files,
            **lost,
            **passages,
            **lines,
            **audit,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Restores a run record. Unknown entries are ignored."""
        return cls(
            version=values["nearkin"],
            spec_json=values["spec"],
            parameters=values["parameters"],
            counts=values["counts"],
            stages=values["stages"],
            metrics=QualityMetrics.from_dict(values["metrics"]),
            files=FileRun.from_json(values) if "inputs" in values else None,
            audit=values.get("audit"),
            lost=values.get("information_lost"),
            passages=values.get("passages"),
            lines=values.get("lines"),
        )

    def require_files(self, folder: Path) -> FileRun:
        """Returns the part that only runs over files have."""
        if self.files is None:
            raise UsageError(f"{folder} is not the output of nearkin dedup on files")
        return self.files

    def require_no_reference(self, folder: Path, purpose: str) -> None:
        """Requires that the run has no reference and no blocklist, whose documents it has not."""
        if self.files is None:
            return
        if self.files.inputs.blocklist is not None:
            raise UsageError(
                f"{folder} cannot {purpose}: it was made with {name_setting('blocklist')}, whose "
                "entries are not in it; run on its inputs without a blocklist"
            )
        if self.files.inputs.against is not None:
            raise UsageError(
                f"{folder} cannot {purpose}: it was made with {name_setting('against')}, and the "
                "documents of the reference are not in it; run on its inputs without a reference"
            )

    def require_no_decisions(self, folder: Path, purpose: str) -> None:
        """Requires that the run was made without decisions, which it does not hold."""
        if self.files is not None and self.files.inputs.decisions is not None:
            raise UsageError(
                f"{folder} cannot {purpose}: it was made with "
                f"{name_setting('decisions', self.files.inputs.decisions['path'])}, which joined "
                "or divided documents whatever their similarity is; run on its inputs without "
                "decisions"
            )

    def require_sketch_stats(self, folder: Path) -> SketchStats:
        """Returns the statistics of the sketch stage."""
        sketched = self.stats.sketch
        if sketched is None:
            raise UsageError(f"{folder} is not the output of a run: run.json has no sketch stage")
        return sketched

    def columns_of(self, folder: Path) -> Columns:
        """Returns the columns that a run over files read, with the document limit of the run."""
        columns = Columns.from_record(self.require_files(folder).request.columns)
        limit = self.require_sketch_stats(folder).document_limit
        return replace(columns, document_limit=limit)


def is_run_folder(path: str | Path) -> bool:
    """Returns whether a path is the output folder of a run. Any text is accepted.

    Examples:
        >>> is_run_folder("word " * 1000)
        False
    """
    try:
        return (Path(path) / RUN).is_file()
    except (OSError, ValueError):
        # A name can be too long, for example if it is a text.
        return False


def read_run_record(path: Path) -> RunRecord:
    """Reads the run record of a finished run."""
    try:
        return RunRecord.from_json(json.loads(path.read_bytes()))
    except FileNotFoundError as error:
        if not path.parent.exists():
            raise UsageError(f"no such folder: {path.parent}") from error
        raise UsageError(
            f"{path.parent} is not the output of a run (it has no file {path.name})"
        ) from error
    except KeyError as error:
        raise UsageError(
            f"{path.parent} is not the output of a run (run.json has no entry {error})"
        ) from error
    except NotADirectoryError as error:
        raise UsageError(
            f"{path.parent} is a file and not the output folder of a run of nearkin dedup"
        ) from error
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path.parent} is not the output of a run ({error})") from error
