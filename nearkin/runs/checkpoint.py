"""The work folder of a run: created, or resumed from what an interrupted run left."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nearkin.corpus import FileCorpus, describe_inputs, find_first_change
from nearkin.engine.decisions import UnknownDecisionsError
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.runs.job import Job
from nearkin.runs.reference import OpenedReferences
from nearkin.runtime.files import disk_errors
from nearkin.runtime.outputs import MANIFEST, Claim
from nearkin.runtime.setting_names import name_flag


def unfinished_run_id(work_folder: Path) -> str | None:
    """Returns the id of the run that left a work folder, or None if there is nothing to resume."""
    try:
        return str(json.loads((work_folder / MANIFEST).read_bytes())["run"])
    except (OSError, ValueError, KeyError):
        return None


@contextmanager
def open_work_folder(
    job: Job,
    identity: Mapping[str, object],
    corpus: FileCorpus,
    references: OpenedReferences | None = None,
) -> Iterator[tuple[Claim, WorkFolder]]:
    """Holds the work folder of a run: the one of an interrupted run if it is resumed, or a new one.

    The folder is deleted when the run is complete. After a failure it stays if it holds results
    that a later run can use.
    """
    command = str(identity["command"]).partition(" ")[0]
    claim = Claim.take(job.out, f"nearkin {command}")
    complete = False
    work: WorkFolder | None = None
    try:
        work = _create_or_resume(job, claim, identity, corpus, references)
        yield claim, work
        complete = True
    except UnknownDecisionsError:
        # A run with other decisions cannot use the results.
        claim.clear()
        work = None
        raise
    finally:
        resumable = (claim.path / MANIFEST).exists() if work is None else work.has_results
        if resumable and not complete:
            claim.release()
        else:
            with disk_errors(claim.path):
                claim.remove()


def _create_or_resume(
    job: Job,
    claim: Claim,
    identity: Mapping[str, object],
    corpus: FileCorpus,
    references: OpenedReferences | None,
) -> WorkFolder:
    if not (job.resume and (claim.path / MANIFEST).exists()):
        inputs = describe_inputs(corpus, job.hash_inputs)
        against = [] if references is None else references.describe(job.hash_inputs)
        with disk_errors(claim.path):
            claim.clear()
        return WorkFolder.create(
            claim.path, identity, inputs=inputs, against=against, replaces=job.overwrite
        )
    work = WorkFolder.resume(claim.path, identity)
    change = find_first_change(work.manifest["inputs"], corpus)
    if change is None and references is not None:
        change = references.find_change(work.manifest.get("against", []))
    if change is not None:
        raise UsageError(
            f"cannot resume {job.work_folder}: {change}. Run with {name_flag('overwrite')} to "
            "start again"
        )
    if os.path.lexists(job.out) and not may_replace_output(job, work):
        raise UsageError(
            f"{job.out} exists, and the run in {job.work_folder} was begun without "
            f"{name_flag('overwrite')}; move {job.out} away, then resume the run"
        )
    return work


def may_replace_output(job: Job, work: WorkFolder) -> bool:
    """Returns whether the run may replace an output, by its request now or when it was begun."""
    return job.overwrite or bool(work.manifest["replaces"])
