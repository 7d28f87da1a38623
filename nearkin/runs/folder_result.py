"""A result that is a folder: its record, its publication and its summary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearkin.corpus import FileCorpus
from nearkin.engine.work_folder import WorkFolder
from nearkin.runs.checkpoint import may_replace_output
from nearkin.runs.job import Job
from nearkin.runs.saved import delete_folder
from nearkin.runtime.files import set_readers, to_json, write_durably
from nearkin.runtime.outputs import RESULT, Claim
from nearkin.runtime.version import VERSION


@dataclass(frozen=True, kw_only=True)
class FolderSummary:
    """The outcome of a command whose result is a folder.

    Attributes:
        out: Output folder.
        facts: Facts of the run, as the record in the folder contains them.
        warnings: Warnings about inputs. Empty if the output was complete before.
        peak_memory: Measured peak of the memory, in bytes. None if the output was complete before.
    """

    out: Path
    facts: Mapping[str, object]
    warnings: Sequence[str] = ()
    peak_memory: int | None = None

    def to_json(self) -> dict[str, object]:
        """Returns the summary as `--json` prints it."""
        return {"out": str(self.out), **self.facts}

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts of the run."""
        counts: Mapping[str, int] = self.facts["counts"]  # type: ignore[assignment]
        return counts


def begin_result(claim: Claim) -> Path:
    """Returns the empty folder in which a result is written, within the work folder."""
    staging = claim.path / RESULT
    delete_folder(staging)
    staging.mkdir(parents=True)
    return staging


def describe_result(
    identity: Mapping[str, object],
    counts: Mapping[str, int],
    corpus: FileCorpus,
    work: WorkFolder,
    peak_memory: int,
) -> dict[str, object]:
    """Returns the facts of a run that every record has."""
    return {
        "nearkin": VERSION,
        **identity,
        "counts": counts,
        "inputs": work.manifest["inputs"],
        **({"tables": corpus.tables} if corpus.tables else {}),
        "stages": work.manifest["stages"],
        "peak_memory": peak_memory,
    }


def publish_result(
    job: Job,
    claim: Claim,
    work: WorkFolder,
    identity: Mapping[str, object],
    record: Path,
    facts: Mapping[str, object],
) -> None:
    """Completes a result with its record, and moves it to the place of the output."""
    write_durably(record, to_json(facts))
    set_readers(record.parent, job.readers)
    claim.publish_folder(
        record.parent, work.manifest["run"], identity, replaces=may_replace_output(job, work)
    )
