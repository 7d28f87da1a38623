"""All verified pairs of a corpus, as one file. An interrupted run can be resumed.

Parquet and Arrow files record the request. The other formats have no place for it.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from nearkin.corpus import FileCorpus, find_first_change
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.input_manifest import HashedPart, InputRecord
from nearkin.engine import result_tables
from nearkin.engine.changed_settings import describe_change
from nearkin.engine.containment import (
    estimate_missing_contained,
    find_contained,
    require_containable,
)
from nearkin.engine.missing_pairs import estimate_missing_pairs
from nearkin.engine.options import DEFAULT_PAIR_BUDGET, RunOptions
from nearkin.engine.result_schema import CONTAINED, PAIRS
from nearkin.engine.run import Run
from nearkin.engine.stats import CollapseStats, MissingPairsStats, Stage, StageRecords
from nearkin.errors import UsageError
from nearkin.reports.run_warnings import warn_of_run
from nearkin.runs.checkpoint import may_replace_output, open_work_folder
from nearkin.runs.job import Job
from nearkin.runs.output import require_file_output
from nearkin.runs.saved import open_job
from nearkin.runs.table_files import TableFile, TableFormat, write_table_file
from nearkin.runtime.dialect import DELIMITERS
from nearkin.runtime.files import Readers, disk_errors, require_file_path, set_readers, to_json
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.outputs import MANIFEST, RESULT, Claim, published_file, work_folder_of
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.suggestions import require_choice

HEADER_BYTES = 1 << 16
"""The number of bytes in which the first line of a file of pairs ends."""
FOOTER_KEY = b"nearkin.run"
"""The entry of the metadata of a parquet or Arrow file that holds the request and the inputs."""
HEADERS = frozenset({tuple(PAIRS.names), (*PAIRS.names, "distance"), tuple(CONTAINED.names), ("",)})
"""The columns by which a file of pairs without such an entry is recognized.

JSON lines without pairs are an empty file."""
COPIES = "copies_left_out"
"""The entry of the recorded request that counts the copies that are in no pair."""


class Relation(StrEnum):
    """The relation between the two documents of a reported pair."""

    SIMILARITY = "similarity"
    CONTAINMENT = "containment"


def require_listable(relation: str, settings: RunOptions, *, expand_exact: bool) -> RunOptions:
    """Returns the options of a run that lists pairs, after checking that they suit the relation."""
    require_choice("relation", relation, Relation)
    if settings.max_lost is not None:
        enough = "jaccard >= 0.8 and containment >= 0.95"
        raise UsageError(
            f"{name_setting('max_lost', settings.max_lost)} decides which documents dedup removes; "
            f"to list pairs under this condition, write it as {name_setting('accept', enough)}, "
            "for example"
        )
    if settings.acceptance is not None and expand_exact:
        raise UsageError(
            f"{name_setting('accept', settings.accept)} decides about the compared documents, and "
            "not about their exact duplicates, whose texts may differ; leave out "
            f"{name_flag('expand_exact')}"
        )
    if settings.related is not None:
        raise UsageError(
            f"{name_setting('related', settings.related)} links documents of different clusters, "
            "which dedup makes; pairs lists all pairs that reach the threshold, so give "
            f"{name_setting('threshold', settings.related)} instead"
        )
    if relation == Relation.CONTAINMENT and settings.fields:
        raise UsageError(
            f"{name_setting('fields', list(settings.fields))} are compared by their similarity; "
            f"leave out {name_setting('relation', str(Relation.CONTAINMENT))}"
        )
    if relation == Relation.CONTAINMENT:
        require_containable(settings.spec)
        if expand_exact:
            raise UsageError(
                "relation containment lists exact groups by one member; leave out "
                f"{name_flag('expand_exact')}"
            )
    return with_pair_budget(settings)


def with_pair_budget(options: RunOptions) -> RunOptions:
    """Returns the options of a run that lists pairs, with a pair budget."""
    if options.pair_budget is not None:
        return options
    return replace(options, pair_budget=DEFAULT_PAIR_BUDGET)


class FoundPairs(NamedTuple):
    """The pairs of a run."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    """The table of pairs."""
    missing: MissingPairsStats | None
    """An estimate of the pairs that are missing, or None if no bucket exceeds the pair budget."""
    rows: int | None
    """The number of rows, or None if it is unknown before they are written."""
    copies: int
    """The number of documents that are in no pair, because another one of equal text or of an
    equal value represents them."""


def find_pairs(run: Run, relation: Relation, *, expand_exact: bool) -> FoundPairs:
    """Runs the stages that find pairs."""
    if relation == Relation.CONTAINMENT:
        run.to_exact_groups()
        contained = find_contained(run)
        batches = result_tables.contained_batches(contained, run.documents().ids)
        rows = len(contained.a)
        missing = estimate_missing_contained(run)
        run.release_hashes()
        return FoundPairs(CONTAINED, batches, missing, rows, _count_copies(run))
    run.to_pairs()
    missing = estimate_missing_pairs(run, expand_exact=expand_exact)
    schema = result_tables.pairs_schema(run)
    if expand_exact:
        batches = result_tables.expanded_pair_batches(run)
        return FoundPairs(schema, batches, missing, rows=None, copies=0)
    rows = len(run.scored().pairs)
    return FoundPairs(schema, result_tables.pair_batches(run), missing, rows, _count_copies(run))


def _count_copies(run: Run) -> int:
    """Returns the number of documents that others represent in the pairs of a run."""
    stats = CollapseStats.from_dict(run.recorded(Stage.COLLAPSE))
    return stats.exact + (stats.same or 0)


def describe_copies(copies: int, *, can_be_listed: bool) -> str:
    """Returns the end of a summary, which says how many copies are in no pair if some are."""
    if not copies:
        return ""
    are = "exact copy is" if copies == 1 else "exact copies are"
    advice = f"; list {'it' if copies == 1 else 'them'} with {name_flag('expand_exact')}"
    return f"; {copies:,} {are} left out{advice if can_be_listed else ''}"


def _advance_by_rows(
    batches: Iterator[pa.RecordBatch], progress: Progress
) -> Iterator[pa.RecordBatch]:
    """Yields record batches, and counts their rows when they are written."""
    for batch in batches:
        yield batch
        progress.advance(batch.num_rows)


class ContentRecord(TypedDict):
    """An input file in the footer of a file of pairs. Equal inputs have equal records."""

    path: str
    name: str
    size: int
    """The size in bytes."""
    sha256: str
    hashed: str


@dataclass(frozen=True, kw_only=True)
class PairsSummary:
    """The outcome of `nearkin pairs`.

    Attributes:
        out: Output file.
        pairs: Number of pairs in it.
        request: Request of the run, as JSON values.
        stages: Records of the stages. Empty if the file was complete before.
        peak_memory: Measured peak of the memory, in bytes. None if the file was complete before.
        missing: Estimate of the pairs that are missing, or None if no bucket exceeds the pair
            budget.
        copies: Number of documents that are in no pair, because another one of equal text or of
            an equal value represents them.
        warnings: Warnings about inputs.
    """

    out: Path
    pairs: int
    request: Mapping[str, object]
    stages: StageRecords = field(default_factory=dict)
    peak_memory: int | None = None
    missing: MissingPairsStats | None = None
    copies: int = 0
    warnings: Sequence[str] = ()

    def to_json(self) -> dict[str, object]:
        """Returns the summary as `--json` prints it."""
        summary = {
            "pairs": self.pairs,
            "missing_pairs": 0 if self.missing is None else self.missing.pairs,
            "missing_share": 0.0 if self.missing is None else self.missing.share,
            COPIES: self.copies,
            "stages": self.stages,
            "out": str(self.out),
            **self.request,
        }
        if self.stages:
            summary |= {"peak_memory": self.peak_memory, "warnings": list(self.warnings)}
        return summary


def run_pairs(
    job: Job,
    progress: Progress,
    relation: str = "similarity",
    *,
    expand_exact: bool = False,
) -> PairsSummary:
    """Writes all verified pairs into the output file of a job."""
    job = replace(job, settings=require_listable(relation, job.settings, expand_exact=expand_exact))
    require_pairs_output(job.out, job.inputs, resume=job.resume, overwrite=job.overwrite)
    opened = open_job(job)
    job, corpus = opened.job, opened.corpus
    require_listable(relation, job.settings, expand_exact=expand_exact)
    parsed = Relation(relation)
    identity = job.identity(f"pairs by {parsed}", expand_exact=expand_exact)
    request = job.identity("pairs")
    finished = _count_finished_pairs(job, identity, corpus)
    if finished is not None:
        footer = json.loads(_read_footer(job.out)[FOOTER_KEY])
        recorded = footer.get(Stage.MISSING_PAIRS)
        missing = None if recorded is None else MissingPairsStats.from_dict(recorded)
        return PairsSummary(
            out=job.out,
            pairs=finished,
            request=request,
            missing=missing,
            copies=footer.get(COPIES, 0),
        )
    with PeakMemory() as memory, open_work_folder(job, identity, corpus) as (claim, work):
        opened.copy_signatures(work)
        run = Run(corpus, job.columns, job.settings, work, progress, job.resources)
        found_pairs = find_pairs(run, parsed, expand_exact=expand_exact)
        inputs = _list_contents(work.manifest["inputs"])
        metadata = _footer_of(identity, inputs, found_pairs.missing, found_pairs.copies)
        staged = claim.path / RESULT
        with disk_errors(job.out.parent):
            schema = found_pairs.schema.with_metadata(metadata)
            progress.stage(str(Stage.WRITE), found_pairs.rows)
            batches = _advance_by_rows(found_pairs.batches, progress)
            target = TableFile.require(job.out).in_dialect_of(corpus, job.columns)
            rows = write_table_file(target, staged, schema, batches)
        if os.path.lexists(job.out) and not may_replace_output(job, work):
            raise UsageError(
                f"{job.out} was created while the run was working; move it away, then resume the "
                "run"
            )
        set_readers(staged, job.readers)
        claim.publish_file(staged)
        stages = work.manifest["stages"]
        warnings = warn_of_run(run)
    return PairsSummary(
        out=job.out,
        pairs=rows,
        request=request,
        stages=stages,
        peak_memory=memory.peak,
        missing=found_pairs.missing,
        copies=found_pairs.copies,
        warnings=warnings,
    )


def write_pairs_file(
    path: Path,
    pairs: pa.Table,
    request: Mapping[str, object],
    missing: MissingPairsStats | None,
    readers: Readers,
    *,
    copies: int = 0,
    overwrite: bool = False,
) -> Path:
    """Writes the pairs of a run without a work folder of its own into a file."""
    target = TableFile.require(path)
    # it refuses URLs
    work_folder_of(path)
    require_file_path(path)
    if overwrite:
        require_file_output(path, is_pairs_file, "a file of pairs", overwrite=True)
    elif os.path.lexists(path):
        raise UsageError(f"{path} exists; choose another file")
    schema = pairs.schema.with_metadata(_footer_of(request, [], missing, copies))
    with published_file(path, "write", readers, replaces=overwrite) as staged:
        write_table_file(target, staged, schema, iter(pairs.to_batches()))
    return path


def _footer_of(
    identity: Mapping[str, object],
    inputs: Sequence[ContentRecord],
    missing: MissingPairsStats | None,
    copies: int,
) -> dict[bytes, bytes]:
    """Returns the metadata of a file of pairs."""
    footer: dict[str, object] = {"identity": identity, "inputs": inputs}
    if missing is not None:
        footer[Stage.MISSING_PAIRS] = missing.to_dict()
    if copies:
        footer[COPIES] = copies
    return {FOOTER_KEY: to_json(footer)}


def require_pairs_output(
    out: Path, inputs: tuple[str, ...], *, resume: bool, overwrite: bool
) -> None:
    """Requires that a file of pairs can be written. With `resume` an existing one is accepted."""
    TableFile.require(out)
    replaceable = overwrite or resume
    require_file_output(out, is_pairs_file, "a file of pairs", inputs, overwrite=replaceable)


def _count_finished_pairs(
    job: Job, identity: Mapping[str, object], corpus: FileCorpus
) -> int | None:
    """Returns the number of pairs in a finished file, or None if work is left."""
    if job.overwrite or not job.resume or not job.out.exists():
        return None
    recorded_footer = _read_footer(job.out).get(FOOTER_KEY)
    if recorded_footer is None:
        if (job.work_folder / MANIFEST).exists():
            return None
        raise UsageError(
            f"{job.out} is finished, and its format does not record the request; replace it with "
            f"{name_flag('overwrite')}, or choose another {name_setting('out')}"
        )
    recorded = json.loads(recorded_footer)
    difference = describe_change(recorded["identity"], json.loads(json.dumps(identity)))
    change = None if difference else find_first_change(recorded["inputs"], corpus)
    if difference or change:
        if (job.work_folder / MANIFEST).exists():
            return None
        reason = f"was made with {difference}" if difference else str(change)
        raise UsageError(
            f"{job.out} is finished and {reason}; replace it with {name_flag('overwrite')}, or "
            f"choose another {name_setting('out')}"
        )
    if os.path.lexists(job.work_folder):
        # The run was killed while it deleted its work folder.
        Claim.take(job.out, "nearkin pairs").remove()
    return _count_rows(job.out)


def _list_contents(inputs: Sequence[InputRecord]) -> list[ContentRecord]:
    """Returns the names, sizes and hashes of inputs.

    Places and times are left out, so that equal inputs make equal files.
    """
    return [
        {
            "path": entry["name"],
            "name": entry["name"],
            "size": entry["size"],
            "sha256": entry["sha256"],
            "hashed": entry.get("hashed", HashedPart.FULL.value),
        }
        for entry in inputs
    ]


def is_pairs_file(path: Path) -> bool:
    """Returns whether a file was written by `nearkin pairs`."""
    target = TableFile.require(path)
    if target.format.is_text:
        return _read_header(target) in HEADERS
    return FOOTER_KEY in _read_footer(path)


def _read_header(target: TableFile) -> tuple[str, ...]:
    """Returns the columns of a file of lines, as its first line names them."""
    file = InputFile(str(target.path.absolute()), target.path.name)
    try:
        with file.open_decompressed() as stream:
            line = bytes(stream.read(HEADER_BYTES)).partition(b"\n")[0].decode("utf-8-sig")
        if target.delimits or not line:
            return tuple(re.split(f"[{''.join(DELIMITERS)}]", line.rstrip("\r")))
        return tuple(json.loads(line))
    except (OSError, ValueError, TypeError, pa.ArrowException):
        return ()


def _read_footer(path: Path) -> dict[bytes, bytes]:
    try:
        if TableFile.require(path).format is TableFormat.ARROW:
            with pa.OSFile(str(path)) as file:
                return dict(pa.ipc.open_file(file).schema.metadata or {})
        return dict(pq.read_schema(path).metadata or {})
    except pa.ArrowException:
        return {}


def _count_rows(path: Path) -> int:
    """Returns the number of rows of a parquet or Arrow file."""
    if TableFile.require(path).format is TableFormat.ARROW:
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            batches = range(reader.num_record_batches)
            return sum(reader.get_batch(number).num_rows for number in batches)
    return int(pq.read_metadata(path).num_rows)
