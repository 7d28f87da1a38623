"""The record of a run, run.json: what was requested, of which inputs, and what came of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from nearkin.corpus import Columns
from nearkin.corpus.input_manifest import InputRecord
from nearkin.corpus.table_versions import TableRecord
from nearkin.engine.stats import RunStats, SketchStats, StageRecords
from nearkin.errors import UsageError
from nearkin.quality.evaluate.audit import Audit
from nearkin.runtime.metrics import QualityMetrics
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec

RUN = "run.json"
"""The name of the run record in an output folder."""


class ReferenceRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reference of a run.

    Attributes:
        paths: Paths and URLs as requested, without passwords.
        only: Whether the documents of the inputs were not compared with each other.
        files: Files of each reference. Of a run whose signatures were used, its record and
            clusters.
        tables: Versions of the tables that these files belong to.
        scope: Scope that was searched, if the reference has an index.
    """

    paths: Sequence[str]
    only: bool
    files: Sequence[Sequence[InputRecord]]
    tables: list[TableRecord] = []
    scope: str | None = None


class DecisionsRecord(Struct, frozen=True):
    """The decisions of a run: the file as requested, and a hash of the decisions that counted."""

    path: str
    fingerprint: str


class BlocklistRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The blocklist of a run, or the documents that were purged.

    Attributes:
        fingerprint: Hash of the entries.
        path: Path of the blocklist as requested.
        purged: Run that was repeated without the documents like given ones.
        like: Files of the given documents, without passwords.
    """

    fingerprint: str
    path: str | None = None
    purged: str | None = None
    like: Sequence[str] | None = None


class ExtensionRecord(Struct, frozen=True, kw_only=True):
    """The finished run that a run extends, and the numbers of documents that changed since.

    Attributes:
        run: Path of its output folder.
        new: Number of documents of the new files.
        replaced: Number of documents of the finished run whose id a new document has.
        withdrawn: Number of its documents that were withdrawn.
        unknown: Number of ids of withdrawn documents that it does not have.
        stable: Whether documents that it kept stay kept.
    """

    run: str
    new: int
    replaced: int
    withdrawn: int
    unknown: int
    stable: bool


class RunRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a run of the library, whose fields are the entries of run.json.

    Attributes:
        version: Version of nearkin that executed the run.
        spec_json: Spec of the signatures, as a JSON object.
        parameters: Options that decide the result.
        counts: Numbers of documents that were read, kept, removed and rejected.
        stages: Statistics of the finished stages, by name.
        metrics: Quality metrics.
        audit: Result of an audit as a JSON object, or None if the run was not audited.
        lost: Information that the run lost as a JSON object, or None if it was not measured.
        doubtful: Removed near-duplicates that may be distinct documents, as a JSON object, or None
            if none were examined.
        chosen: Settings that were chosen for the inputs, and what was tried, as a JSON object. None
            if settings were given.
        passages: Passages that were cut as a JSON object, or None if none were asked for.
        lines: Repeated lines that were cut as a JSON object, or None if none were asked for.
        merged: Numbers of values that kept rows got from their clusters as a JSON object, or None.
    """

    version: str = msgspec.field(name="nearkin")
    spec_json: Mapping[str, Any] = msgspec.field(name="spec")
    parameters: dict[str, Any]
    counts: Mapping[str, int]
    stages: StageRecords
    metrics: Mapping[str, Any]
    audit: Mapping[str, Any] | None = None
    lost: Mapping[str, Any] | None = msgspec.field(default=None, name="information_lost")
    doubtful: Mapping[str, Any] | None = msgspec.field(default=None, name="doubtful_removals")
    chosen: Mapping[str, Any] | None = None
    passages: Mapping[str, Any] | None = None
    lines: Mapping[str, Any] | None = None
    merged: Mapping[str, Any] | None = None

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
        return msgspec.structs.replace(self, audit=audit.to_dict(), metrics=metrics.to_dict())

    def to_json(self) -> dict[str, object]:
        """Returns the content of run.json."""
        content: dict[str, object] = msgspec.to_builtins(self, enc_hook=_to_plain)
        return content

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "RunRecord":
        """Restores a run record. Unknown entries are ignored."""
        return msgspec.convert(values, FileRun if "inputs" in values else RunRecord)

    def require_files(self, folder: Path) -> "FileRun":
        """Returns the record, if it is that of a run over files."""
        if not isinstance(self, FileRun):
            raise UsageError(f"{folder} is not the output of nearkin dedup on files")
        return self

    def require_no_reference(self, folder: Path, purpose: str) -> None:
        """Requires that the run has no reference and no blocklist, whose documents it has not."""
        if not isinstance(self, FileRun):
            return
        if self.blocklist is not None:
            raise UsageError(
                f"{folder} cannot {purpose}: it was made with {name_setting('blocklist')}, whose "
                "entries are not in it; run on its inputs without a blocklist"
            )
        if self.against is not None:
            raise UsageError(
                f"{folder} cannot {purpose}: it was made with {name_setting('against')}, and the "
                "documents of the reference are not in it; run on its inputs without a reference"
            )

    def require_no_decisions(self, folder: Path, purpose: str) -> None:
        """Requires that the run was made without decisions, which it does not hold."""
        if isinstance(self, FileRun) and self.decisions is not None:
            raise UsageError(
                f"{folder} cannot {purpose}: it was made with "
                f"{name_setting('decisions', self.decisions.path)}, which joined "
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
        limit = self.require_sketch_stats(folder).document_limit
        return replace(self.require_files(folder).recorded_columns, document_limit=limit)


def _to_plain(value: object) -> object:
    """Returns a number of a derived type as a plain one."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value)
    raise NotImplementedError


class FileRun(RunRecord, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a run over files.

    Attributes:
        command: Name of the command.
        columns: Columns of the inputs that were read, as a JSON object.
        annotate: Whether all rows were kept and got cluster columns.
        save_signatures: Whether signatures and band keys were kept in the output.
        save_hashes: Whether sets of shingle hashes were kept beside the signatures.
        out: Output folder.
        output: The value of `DocumentOutput.output`, as the next five are of its other fields.
            None for the default.
        spec_fingerprint: Fingerprint of the Spec.
        bands: Number of bands, or None if all pairs were compared.
        rows: Rows of a band, or None if all pairs were compared.
        memory: Bound on the memory, in bytes. As the next two, it does not decide the result.
        workers: Number of threads.
        peak_memory: Measured peak of the memory, in bytes, or None if it was not measured.
        inputs: Input files, with the size, time and hash of each.
        tables: Versions of the tables that the files belong to.
        against: The reference, or None if the run has none.
        decisions: The decisions, or None if the run has none.
        blocklist: The blocklist, or None if the run has none.
        extension: The finished run that the run extends, or None.
        skipped: Number of skipped files and folders, and the first ones.
        seconds: Duration of all stages, in seconds.
        warnings: Warnings of the report.
        software: Versions of Python and of the libraries that decide results.
    """

    command: str
    columns: Mapping[str, Any]
    annotate: bool
    save_signatures: bool
    save_hashes: bool = False
    out: str
    output: str | None = None
    codec: str | None = None
    sizes: bool = False
    document_weights: Any = None
    merge_fields: str | None = None
    merge_sources: bool = False
    spec_fingerprint: str
    bands: int | None
    rows: int | None
    memory: int
    workers: int
    peak_memory: int | None
    inputs: Sequence[InputRecord]
    tables: list[TableRecord] = []
    against: ReferenceRecord | None = None
    decisions: DecisionsRecord | None = None
    blocklist: BlocklistRecord | None = None
    extension: ExtensionRecord | None = None
    skipped: Mapping[str, Any]
    seconds: float
    warnings: Sequence[str]
    software: Mapping[str, str] = {}

    @property
    def recorded_columns(self) -> Columns:
        """The columns that the run read."""
        return Columns.from_record(self.columns)


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
    except NotADirectoryError as error:
        raise UsageError(
            f"{path.parent} is a file and not the output folder of a run of nearkin dedup"
        ) from error
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path.parent} is not the output of a run ({error})") from error
