"""The split of files into groups between which there are no near-duplicates."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from nearkin.corpus import FileCorpus, write_kept
from nearkin.corpus.input_manifest import InputRecord
from nearkin.corpus.table_versions import TableRecord
from nearkin.engine.document_split import DocumentSplit, split_documents
from nearkin.engine.keywords import RunParameters
from nearkin.engine.missing_pairs import estimate_missing_pairs
from nearkin.engine.result_schema import GROUPS
from nearkin.engine.result_tables import write_batches
from nearkin.engine.run import Run
from nearkin.engine.sketching import REJECTED
from nearkin.engine.split_groups import SplitFacts, SplitGroups, require_splittable
from nearkin.engine.stats import Stage, StageRecords
from nearkin.engine.value_keys import value_columns_of
from nearkin.reports.run_warnings import warn_of_run
from nearkin.runs.checkpoint import open_work_folder
from nearkin.runs.document_output import known_documents
from nearkin.runs.folder_result import begin_result, publish_result
from nearkin.runs.job import Job
from nearkin.runs.output import is_output_finished, read_finished, require_output_free
from nearkin.runs.pairs import with_pair_budget
from nearkin.runs.saved import open_job
from nearkin.runtime.files import disk_errors
from nearkin.runtime.progress import Progress
from nearkin.runtime.version import VERSION

GROUP_TABLE = "groups.parquet"
"""The file of the group of each document."""
SPLIT_RECALL = 0.99
"""The default recall of splits and checks. A missed pair is a leak."""
SPLIT = "split.json"
"""The file of the record of a split."""


class SplitRecord(TypedDict):
    """The content of split.json."""

    nearkin: str
    """The version of nearkin."""
    spec: Mapping[str, object]
    parameters: dict[str, Any]
    seed: int
    """The seed of the hashes that select groups."""
    facts: SplitFacts
    rejected: int
    """The number of rejected rows."""
    inputs: Sequence[InputRecord]
    tables: NotRequired[Sequence[TableRecord]]
    stages: StageRecords
    warnings: list[str]
    out: NotRequired[str]


@dataclass(frozen=True)
class FinishedSplit:
    """A split whose groups are known.

    Attributes:
        split: The groups of the documents.
        facts: Its numbers.
        warnings: Sentences about it, for example that pairs are missing.
    """

    split: DocumentSplit
    facts: SplitFacts
    warnings: list[str]


def with_recall_of_splits(parameters: RunParameters) -> RunParameters:
    """Returns parameters with the default recall of splits and checks, if none is given."""
    return {"recall": SPLIT_RECALL, **parameters}


def execute_split(run: Run, groups: SplitGroups) -> FinishedSplit:
    """Runs the stages that find pairs, and assigns whole clusters to groups.

    Equal values of the columns of `same` and `url` keep documents together, too. They do not
    replace the comparison of their texts, because near-duplicates of each must be kept together.
    """
    require_splittable(run.options)
    columns = value_columns_of(run.options)
    run.options = with_pair_budget(replace(run.options, same=None, url=None))
    split = split_documents(run, groups, columns)
    estimate_missing_pairs(run, expand_exact=True)
    return FinishedSplit(split, split.summarize(run.documents().ids), warn_of_run(run))


def run_split(job: Job, groups: SplitGroups, progress: Progress) -> SplitRecord:
    """Splits files into the output folder of a job."""
    require_splittable(job.settings)
    require_output_free(job.out, resume=job.resume, overwrite=job.overwrite)
    opened = open_job(job)
    job, corpus = opened.job, opened.corpus
    identity = job.identity(
        "split", groups=list(groups.shares), names=list(groups.names), group_seed=groups.seed
    )
    if is_output_finished(job):
        finished: SplitRecord = read_finished(job, identity, job.out / SPLIT, corpus)
        return finished
    with open_work_folder(job, identity, corpus) as (claim, work):
        opened.copy_signatures(work)
        run = Run(corpus, job.columns, job.settings, work, progress, job.resources)
        executed = execute_split(run, groups)
        with run.stage(Stage.WRITE):
            staging = begin_result(claim)
            _write_groups(run, corpus, executed.split, staging)
        record: SplitRecord = {
            "nearkin": VERSION,
            "spec": json.loads(job.settings.spec.to_json()),
            "parameters": job.settings.parameters(),
            "seed": groups.seed,
            "facts": executed.facts,
            "rejected": run.sketch_stats.rejected,
            "inputs": work.manifest["inputs"],
            "stages": work.manifest["stages"],
            "warnings": executed.warnings,
        }
        if corpus.tables:
            record["tables"] = corpus.tables
        with disk_errors(staging):
            job.resources.write(staging, job.settings.spec)
            publish_result(job, claim, work, identity, staging / SPLIT, {**record})
    return record


def _write_groups(run: Run, corpus: FileCorpus, split: DocumentSplit, folder: Path) -> None:
    """Writes the documents of each group, the table of groups and the rejected rows."""
    run.progress.stage(str(Stage.WRITE), len(split.group) * len(split.groups.names))
    for number, name in enumerate(split.groups.names):
        (folder / name).mkdir()
        write_kept(
            corpus,
            run.columns,
            np.asarray(split.group == number),
            folder / name,
            advance=run.progress.advance,
            known=known_documents(run),
            workers=run.copying_workers,
        )
    write_batches(folder / GROUP_TABLE, GROUPS, split.batches(run.documents().ids))
    rejected = run.work.path / "sketch" / REJECTED
    (folder / REJECTED).write_bytes(rejected.read_bytes())
