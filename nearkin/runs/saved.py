"""Saved runs: outputs with signatures, which can be inputs without being sketched again."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.corpus import Columns, FileCorpus, find_first_change
from nearkin.corpus.file_names import has_hidden_password
from nearkin.engine.acceptance import text_facts_of
from nearkin.engine.changed_settings import describe_change
from nearkin.engine.documents import arrays_of
from nearkin.engine.growth import WITHDRAWN
from nearkin.engine.options import RunOptions
from nearkin.engine.saved_sets import SET_FILES, SavedSets
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.runs.extension import CLUSTERS
from nearkin.runs.job import Job, check_job
from nearkin.runs.run_record import RUN, RunRecord, is_run_folder, read_run_record
from nearkin.runtime.files import disk_errors
from nearkin.runtime.outputs import is_half_written
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.settings.spec import Spec

SIGNATURES = "signatures"
"""The folder of an output that holds signatures and band keys."""
COMPARISON = "comparison"
"""The folder of an output with sets that holds what runs that extend it need not compare again."""
RUN_AGAIN = "run nearkin dedup on the inputs themselves"
"""The remedy for a saved run that cannot be used."""


@dataclass(frozen=True)
class SavedRun:
    """A finished run whose output contains signatures. As an input it needs no sketching.

    Attributes:
        folder: The output folder of the run.
        record: Its run record.
    """

    folder: Path
    record: RunRecord

    @classmethod
    def find(cls, inputs: tuple[str, ...]) -> "SavedRun | None":
        """Returns the saved run that the inputs name, or None if they name other files."""
        folder = Path(inputs[0])
        if len(inputs) != 1 or not is_run_folder(folder):
            return None
        if not (folder / SIGNATURES).is_dir():
            raise UsageError(
                f"{folder} is a run without signatures; run it again with "
                f"{name_flag('save_signatures')} to use it as an input"
            )
        return cls(folder, read_run_record(folder / RUN))

    @property
    def spec(self) -> Spec:
        """The Spec of the signatures."""
        return self.record.spec

    @property
    def options(self) -> RunOptions:
        """The options of the run."""
        return RunOptions.from_parameters(self.record.parameters, self.spec)

    def with_recorded_fields(self, columns: Columns) -> Columns:
        """Returns columns whose fields have the kinds and the sizes that the run found."""
        recorded = self.record.require_files(self.folder).recorded_columns
        if not columns.fields and not recorded.fields:
            return columns
        if [field.name for field in columns.fields] == [field.name for field in recorded.fields]:
            return replace(columns, fields=recorded.fields)
        if not recorded.fields:
            raise UsageError(
                f"{name_setting('fields', [field.name for field in columns.fields])} contradicts "
                f"the saved run {self.folder}, which has the signatures of one column; leave it "
                "out, or run nearkin dedup on its inputs instead"
            )
        raise UsageError(
            f"the saved run {self.folder} has the signatures of the fields "
            f"{', '.join(self.options.fields)}; give {name_setting('fields')} for each of these "
            "columns in this order, or run nearkin dedup on its inputs instead"
        )

    def open_corpus(self, on_error: str, *, uses_signatures: bool = True) -> FileCorpus:
        """Opens the inputs from which the run was made."""
        if uses_signatures:
            self._require_whole_signatures()
        corpus = self.find_inputs(on_error)
        files = self.record.require_files(self.folder).inputs
        if change := find_first_change(files, corpus):
            raise UsageError(f"{self.folder} cannot be an input: {change}; {RUN_AGAIN}")
        return corpus

    def find_inputs(self, on_error: str) -> FileCorpus:
        """Returns the inputs from which the run was made, which may have changed since."""
        files = self.record.require_files(self.folder).inputs
        paths = [entry["path"] for entry in files]
        hidden = next(filter(has_hidden_password, paths), None)
        if hidden is not None:
            raise UsageError(
                f"{self.folder} cannot be used again: its input {hidden} was given with a "
                "password, which is not recorded; copy the inputs, or configure the credentials "
                "of the storage, and run nearkin dedup again"
            )
        corpus = FileCorpus.open(paths, on_error=on_error)
        withdrawn = self.folder / SIGNATURES / WITHDRAWN
        if withdrawn.exists():
            corpus.arrange({entry["path"]: entry["name"] for entry in files})
            corpus.withdraw(np.fromfile(withdrawn, np.uint64))
        return corpus

    def read_clusters(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns the table of clusters, with a row for each document."""
        path = self.folder / CLUSTERS
        sketched = self.record.require_sketch_stats(self.folder)
        try:
            clusters = pq.read_table(path, columns=columns)
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"cannot read {path}: {error}; {RUN_AGAIN}") from error
        documents = sketched.documents
        if clusters.num_rows != documents:
            raise UsageError(
                f"{path} has {clusters.num_rows:,} rows, and the run had {documents:,} documents; "
                f"{RUN_AGAIN}"
            )
        return clusters

    def _require_whole_signatures(self) -> None:
        """Requires that the files of the signatures have the sizes that run.json implies."""
        sketched = self.record.require_sketch_stats(self.folder)
        key_count = 0
        if sketched.keyed is not None:
            bands, _, probes = sketched.keyed
            key_count = bands * (1 + probes)
        arrays = arrays_of(self.spec, key_count, further=self.options.further_specs)
        for name, (dtype, width) in arrays.items():
            path = self.folder / SIGNATURES / name
            expected = sketched.documents * (width or 1) * np.dtype(dtype).itemsize
            try:
                size = path.stat().st_size
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror}; {RUN_AGAIN}") from error
            if size != expected:
                raise UsageError(f"{path} has {size:,} bytes instead of {expected:,}; {RUN_AGAIN}")


class OpenedJob(NamedTuple):
    """A job that was checked, with the settings of the saved run that it reads, if any."""

    job: Job
    corpus: FileCorpus
    """The inputs, or the files from which the saved run was made."""
    saved: SavedRun | None

    def copy_signatures(self, work: WorkFolder) -> None:
        """Copies the signatures of a saved run into a work folder, as its sketch stage."""
        if self.saved is None or work.done("sketch") is not None:
            return
        with work.stage("sketch") as facts:
            target = work.path / "sketch"
            delete_folder(target)
            signatures = self.saved.folder / SIGNATURES
            ignored_sets = () if self.job.save_hashes else SET_FILES
            shutil.copytree(signatures, target, ignore=_ignore_band_keys(signatures, ignored_sets))
            facts.update(self.saved.record.stages["sketch"])


def open_job(job: Job) -> OpenedJob:
    """Opens the files that a job reads, and checks all that can be checked before a run."""
    saved = SavedRun.find(job.inputs)
    if saved is None:
        corpus = job.open_corpus()
    else:
        job = _with_saved_run(job, saved)
        corpus = saved.open_corpus(job.on_error)
    check_job(job, corpus)
    return OpenedJob(job, corpus, saved)


def _with_saved_run(job: Job, saved: SavedRun) -> Job:
    """Returns the job with the Spec and the columns of the saved run that is its input."""
    recorded = saved.record.require_files(saved.folder).recorded_columns
    columns = replace(recorded, carried_columns=job.columns.carried_columns)
    saved.with_recorded_fields(job.columns)
    _require_same_columns(job.columns, columns, saved.folder)
    wanted = job.settings.spec
    if wanted.has_shingles and saved.spec.has_shingles and "symbols" not in wanted.normalise:
        # a saved run keeps the version of its signatures
        wanted = replace(wanted, version=saved.spec.version)
    if wanted not in (Spec(version=wanted.version), saved.spec):
        requested = json.loads(wanted.to_json())
        kept = json.loads(saved.spec.to_json())
        raise UsageError(
            f"the request contradicts the saved run {saved.folder}, which was made with "
            f"{describe_change({'spec': kept}, {'spec': requested})}; leave it out, or run on the "
            "inputs of the saved run"
        )
    if job.settings.sketched_fields != saved.options.sketched_fields:
        raise UsageError(
            f"{name_setting('fields', list(job.settings.fields))} cannot be compared in the saved "
            f"run {saved.folder}, which has signatures for the fields "
            f"{', '.join(saved.options.fields)} under the condition "
            f"{saved.options.accept!r}; give the same condition and limits, or run nearkin dedup "
            "on its inputs instead"
        )
    for fact in text_facts_of(job.settings.acceptance):
        if not (saved.folder / SIGNATURES / fact).exists():
            raise UsageError(
                f"{name_setting('accept', job.settings.accept)} needs the {fact} of the texts, "
                f"which the saved run {saved.folder} does not have; run nearkin dedup on its "
                "inputs instead"
            )
    if job.save_hashes and not has_sets(saved):
        raise UsageError(
            f"{name_flag('save_hashes')} needs the shingle hashes of the texts, which the saved "
            f"run {saved.folder} does not have; run nearkin dedup on its inputs instead"
        )
    missing = sorted(set(columns.carried_columns) - set(recorded.carried_columns))
    if missing:
        raise UsageError(
            f"column {missing[0]!r} was not kept by the run {saved.folder} (it has "
            f"{list(recorded.carried_columns)}); run nearkin dedup on its inputs instead"
        )
    return replace(job, settings=job.settings.with_spec(saved.spec), columns=recorded)


def has_sets(saved: SavedRun) -> bool:
    """Returns whether a saved run has whole sets of shingle hashes."""
    documents = saved.record.require_sketch_stats(saved.folder).documents
    has_fields = bool(saved.options.fields)
    folder = saved.folder / SIGNATURES
    return SavedSets.open(folder, documents, workers=1, has_fields=has_fields) is not None


def _require_same_columns(requested: Columns, saved: Columns, folder: Path) -> None:
    """Requires that columns which were requested, and are not the default, are those of the run."""
    default = Columns()
    for name in ("text", "tokens", "vector", "fingerprint", "id"):
        value = getattr(requested, name)
        saved_value = getattr(saved, name)
        if name == "text" and requested.text is not None and requested.joined:
            value = ",".join(requested.sources)
        if name == "text" and saved.text is not None and saved.joined:
            saved_value = ",".join(saved.sources)
        if value not in (None, getattr(default, name), saved_value):
            made_with = f"no --{name}" if saved_value is None else f"--{name} {saved_value}"
            raise UsageError(
                f"--{name} {value} contradicts the saved run {folder}, which was made with "
                f"{made_with}; leave it out, or run on the inputs of the saved run"
            )
    if requested.ignored_fingerprints not in ((), saved.ignored_fingerprints):
        ignored = list(requested.ignored_fingerprints)
        raise UsageError(
            f"{name_setting('ignore_fingerprint', ignored)} contradicts the saved run {folder}, "
            f"which was made with other ones or none; leave it out, or run on the inputs of the "
            "saved run"
        )


def save_signatures(work: WorkFolder, staging: Path) -> None:
    """Adds the signatures and the band keys of a run to its output.

    They stay in the work folder too, so that this step can be repeated.
    """
    with disk_errors(staging):
        target = staging / SIGNATURES
        delete_folder(target)
        sketch = work.path / "sketch"
        shutil.copytree(
            sketch, target, copy_function=_link_or_copy, ignore=_ignore_band_keys(sketch)
        )
        if (work.path / "keys").is_dir():
            shutil.copytree(work.path / "keys", target / "keys", copy_function=_link_or_copy)


def _ignore_band_keys(
    folder: Path, others: Sequence[str] = ()
) -> Callable[[Any, list[str]], set[str]]:
    """Returns a filter for copytree that leaves out band keys and half-written files.

    Band keys belong to a banding, which the next run may change.
    """

    def ignored_names(parent: Any, names: list[str]) -> set[str]:
        ignored = {
            name for name in names if is_half_written(name) or name.partition(".")[0] in others
        }
        if Path(parent) == folder and "keys" in names:
            ignored.add("keys")
        return ignored

    return ignored_names


def _link_or_copy(source: str, target: str) -> None:
    """Creates a hard link, or a copy if the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def delete_folder(folder: Path) -> None:
    """Deletes a folder if it exists."""
    if folder.exists():
        shutil.rmtree(folder)
