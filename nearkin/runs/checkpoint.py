"""The work folder of a run: created, or resumed from what an interrupted run left."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nearkin.corpus import FileCorpus, describe_inputs, find_first_change
from nearkin.engine.changed_settings import describe_change
from nearkin.engine.decisions import UnknownDecisionsError
from nearkin.engine.work_folder import Manifest, WorkFolder, read_manifest
from nearkin.errors import UsageError
from nearkin.runs.job import Job
from nearkin.runs.reference import OpenedReferences
from nearkin.runtime.files import disk_errors
from nearkin.runtime.outputs import MANIFEST, Claim, holds_results
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.version import VERSION


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
    try:
        work = _create_or_resume(job, claim, identity, corpus, references)
        if os.path.lexists(job.out) and not may_replace_output(job, work):
            raise UsageError(
                f"{job.out} exists, and the run in {job.work_folder} was begun without "
                f"{name_flag('overwrite')}; move {job.out} away, then resume the run"
            )
        yield claim, work
        complete = True
    except UnknownDecisionsError:
        # A run with other decisions cannot use the results.
        claim.clear()
        raise
    finally:
        if holds_results(claim.path) and not complete:
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
    """Returns the work folder of an interrupted run of the same request, or a new one."""
    has_results = holds_results(claim.path)
    may_resume = job.resume and (claim.path / MANIFEST).exists()
    if may_resume or (has_results and not job.overwrite):
        manifest = read_manifest(claim.path)
        change = _find_change(manifest, identity, corpus, references)
        if has_results:
            _require_resumable(job, change)
        if change is None and may_resume:
            return WorkFolder.resume(claim.path)
    inputs = describe_inputs(corpus, job.hash_inputs)
    against = [] if references is None else references.describe(job.hash_inputs)
    with disk_errors(claim.path):
        claim.clear()
    return WorkFolder.create(
        claim.path, identity, inputs=inputs, against=against, replaces=job.overwrite
    )


def _find_change(
    manifest: Manifest,
    identity: Mapping[str, object],
    corpus: FileCorpus,
    references: OpenedReferences | None,
) -> str | None:
    """Describes in what an interrupted run differs from this one, or returns None."""
    difference = describe_change(manifest["identity"], json.loads(json.dumps(identity)))
    if difference is None and manifest["nearkin"] != VERSION:
        difference = f"nearkin {manifest['nearkin']}, and this is nearkin {VERSION}"
    if difference is not None:
        return f"it was begun with {difference}"
    change = find_first_change(manifest["inputs"], corpus)
    if change is None and references is not None:
        change = references.find_change(manifest.get("against", []))
    return change


def _require_resumable(job: Job, change: str | None) -> None:
    """Requires that the results of an interrupted run are those of this one, and wanted."""
    again = f"start again with {name_flag('overwrite')}"
    if change is not None:
        instead = f" instead of {name_flag('resume')}" if job.resume else ""
        raise UsageError(
            f"{job.work_folder} holds an interrupted run that this one cannot resume: {change}; "
            f"{again}{instead}, or choose another {name_setting('out')}"
        )
    if not job.resume:
        raise UsageError(
            f"{job.work_folder} holds an interrupted run with these settings; continue it with "
            f"{name_flag('resume')}, or {again}"
        )


def may_replace_output(job: Job, work: WorkFolder) -> bool:
    """Returns whether the run may replace an output, by its request now or when it was begun."""
    return job.overwrite or bool(work.manifest["replaces"])
