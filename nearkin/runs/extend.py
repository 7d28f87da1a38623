"""Runs that extend a finished one by new, changed and withdrawn documents."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from nearkin.corpus import FileCorpus
from nearkin.corpus.ids import read_ids
from nearkin.corpus.inputs import Selection
from nearkin.engine.growth import Growth, read_comparison
from nearkin.engine.options import RunOptions
from nearkin.engine.pair_files import KnownPairs
from nearkin.errors import UsageError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.diff import DiffResult, diff
from nearkin.runs.document_output import DocumentOutput
from nearkin.runs.extension import Extension
from nearkin.runs.job import Job
from nearkin.runs.kept_file import KeptFile
from nearkin.runs.output import require_output_free
from nearkin.runs.run_record import RUN, FileRun, RunRecord, read_run_record
from nearkin.runs.saved import COMPARISON, SIGNATURES, SavedRun, has_sets
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.outputs import read_marker
from nearkin.runtime.progress import LoggedProgress, Progress
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.version import VERSION
from nearkin.settings.choices import ClusterMethod
from nearkin.settings.keys import HashKey
from nearkin.stages.sketch.resources import SpecResources

SAVED = (
    "run nearkin dedup on the inputs with --save-signatures --save-hashes, whose output can be "
    "extended"
)
"""The remedy for a run that does not hold what an extension needs."""


@check_arguments
def extend(
    run: str | Path,
    data: str | Path | Sequence[str | Path] = (),
    *,
    out: str | Path,
    removed: str | Path | Sequence[str] | None = None,
    stable: bool = False,
    overwrite: bool = False,
) -> DiffResult:
    """Extends a finished run over files by new, changed and withdrawn documents.

    The result is that of a run with the same settings over all documents, if the keep policy
    decides by their contents. Only new files are sketched, and only new documents are compared.

    Args:
        run: Output folder of a finished run with `--save-signatures` and `--save-hashes`.
        data: New files, globs, folders or URLs. A document replaces the one with the same id.
        out: Output folder, another one than `run`. It can be extended again.
        removed: Ids of withdrawn documents, or the path of a file of them: CSV or Parquet with the
            column of ids, or one id on each line. Ids that the run does not have are ignored.
        stable: Whether documents that the finished run kept stay kept, until they are withdrawn or
            replaced.
        overwrite: Whether an existing output is replaced.

    Returns:
        The documents and the clusters that changed, as `nk.diff` returns them.

    Raises:
        UsageError: If the run cannot be extended, an input of it has changed, or the new documents
            have an id twice.
    """
    folder, target = Path(run), Path(out)
    inputs = [data] if isinstance(data, str | Path) else data
    if target.resolve() == folder.resolve():
        raise UsageError(
            f"{name_setting('out', str(out))} is the run itself, with which the result is "
            "compared; choose another folder, or run nearkin dedup --extend"
        )
    withdrawn = Path(removed) if isinstance(removed, str | Path) else removed
    extend_run(
        folder,
        list(map(str, inputs)),
        target,
        LoggedProgress(),
        removed=withdrawn,
        stable=stable,
        overwrite=overwrite,
    )
    return diff(folder, target)


def extend_run(
    folder: Path,
    inputs: Sequence[str],
    out: Path,
    progress: Progress,
    *,
    removed: Path | Sequence[str] | None = None,
    stable: bool = False,
    secret: HashKey | None = None,
    execution: Mapping[str, int] | None = None,
    on_error: str = "quarantine",
    selection: Selection | None = None,
    confirm: Callable[[str], bool] | None = None,
    **fields: Any,
) -> RunRecord:
    """Writes the result of a finished run with new, changed and withdrawn documents.

    It is the result of a run with the same settings over all documents. A new document takes the
    place of one with the same id.

    Args:
        folder: Output folder of the finished run.
        inputs: Paths, globs, folders and URLs of the new documents.
        removed: Ids of withdrawn documents, or the file that has them, or None.
        stable: Whether documents that the finished run kept stay kept until they are withdrawn.
        execution: Memory and workers, which do not decide the result.
        fields: Further fields of the job that do not decide the result, for example `resume`.
    """
    require_output_free(
        out, resume=bool(fields.get("resume")), overwrite=bool(fields.get("overwrite"))
    )
    if not inputs and removed is None:
        raise UsageError(
            f"nothing changes {folder}: give new files, or withdrawn ids with "
            f"{name_setting('removed')}"
        )
    record = read_run_record(folder / RUN).require_files(folder)
    run_id = _require_extendable(folder, record)
    saved = SavedRun(folder, record)
    settings = RunOptions.from_parameters(record.parameters, saved.spec, **(execution or {}))
    _require_extendable_settings(folder, settings, stable=stable)
    columns = record.columns_of(folder)
    if KeptFile.parse(out, columns) is not None:
        raise UsageError(
            f"{out} is a file, and the result of a run that extends another one is a folder; "
            f"choose another {name_setting('out')}, and read the documents in its folder kept"
        )
    documents = record.require_sketch_stats(folder).documents
    known = read_comparison(folder / COMPARISON, documents)
    if known is None or not has_sets(saved):
        raise UsageError(
            f"{folder} cannot be extended: it does not hold the sets and pairs of its documents, "
            f"or they are damaged; {SAVED}"
        )
    corpus = saved.open_corpus(on_error)
    files = len(corpus.files)
    new = None
    if inputs:
        new = FileCorpus.open(list(inputs), on_error, selection=selection)
        _require_new_files(folder, corpus, new)
        corpus.append(new, columns)
        new.arrange({file.path: file.name for file in corpus.files[files:]})
    withdrawn = pa.array(
        read_ids(removed, str(columns.id)) if isinstance(removed, Path) else removed or (),
        pa.large_string(),
    ).unique()
    growth = Growth(
        sketches=folder / SIGNATURES,
        known=_usable_pairs(record, known),
        files=files,
        corpus=new,
        withdrawn=withdrawn,
        kept=saved.read_clusters(["kept"])["kept"].to_numpy(),
        stable=stable,
    )
    digest = hashlib.sha256("\0".join(withdrawn.to_pylist()).encode()).hexdigest()
    job = Job(
        tuple(inputs) or tuple(file.path for file in corpus.files),
        out,
        columns,
        settings,
        annotate=record.annotate,
        save_signatures=True,
        save_hashes=True,
        documents=DocumentOutput.from_record(record),
        resources=SpecResources.read(folder, saved.spec, secret),
        corpus=corpus,
        on_error=on_error,
        extension=Extension(folder, growth, {"run": run_id, "stable": stable, "withdrawn": digest}),
    )
    return run_dedup(replace(job, **fields), progress, confirm=confirm)


def _usable_pairs(record: FileRun, known: KnownPairs) -> KnownPairs | None:
    """Returns the pairs of a run if all are known that bands find, whatever documents follow.

    The bands of signs depend on the number of documents, and pairs in hot buckets on the others.
    """
    candidates = record.stats.candidates
    is_complete = candidates is not None and not candidates.hot_buckets
    return known if is_complete and record.spec.has_slots else None


def _require_extendable(folder: Path, record: FileRun) -> str:
    """Requires that a run left what an extension takes over, and returns its id."""
    marker = read_marker(folder)
    if marker is None:
        raise UsageError(
            f"{folder} cannot be extended: the list of its files is lost or damaged, so that it is "
            f"not known if it is complete; {SAVED}"
        )
    if record.version != VERSION:
        raise UsageError(
            f"{folder} cannot be extended: it was made by nearkin {record.version}, and this is "
            f"nearkin {VERSION}; {SAVED}"
        )
    reason = None
    if record.command != "dedup":
        reason = f"it was made by nearkin {record.command}"
    elif record.columns["id"] is None:
        reason = "its documents have no column of ids, by which a change is recognized"
    elif record.require_sketch_stats(folder).repeated_ids:
        reason = "several of its documents have the same id"
    elif record.against is not None or record.blocklist is not None:
        reason = "it was made with a reference or a blocklist"
    elif record.decisions is not None:
        reason = f"it was made with {name_setting('decisions', record.decisions.path)}"
    elif record.passages is not None or record.lines is not None:
        reason = "it cut passages or lines of its documents"
    elif record.document_weights is not None:
        reason = f"it was made with {name_setting('document_weights')}"
    elif record.spec.cut is not None or record.spec.frequencies is not None:
        reason = "its shingles are weighted or cut by their frequencies in its documents"
    elif record.spec.truncated:
        reason = f"it was made with {name_setting('slot_bits', record.spec.slot_bits)}"
    if reason is not None:
        raise UsageError(
            f"{folder} cannot be extended: {reason}; run nearkin dedup on all documents instead"
        )
    if not (record.save_signatures and record.save_hashes):
        raise UsageError(f"{folder} cannot be extended: it kept no signatures and sets; {SAVED}")
    return marker["run"]


def _require_extendable_settings(folder: Path, settings: RunOptions, *, stable: bool) -> None:
    """Requires that the result follows from the documents and the pairs of both runs."""
    reasons = dict.fromkeys(
        ("second_measure", "related", "accept", "max_lost", "probes", "fields"),
        "run nearkin dedup on all documents instead",
    )
    for name, remedy in reasons.items():
        value = getattr(settings, name)
        default = () if name == "fields" else getattr(RunOptions(), name)
        if value not in (None, default):
            named = name_setting(name, list(value) if isinstance(value, tuple) else value)
            raise UsageError(f"{folder} cannot be extended: it was made with {named}; {remedy}")
    if not stable:
        return
    orders = settings.keep_policy.cluster_criterion is None
    if settings.cluster != ClusterMethod.LEADERS or not orders or settings.keep_up_to > 1:
        raise UsageError(
            f"{name_flag('stable')} needs clusters around one kept document, and {folder} was made "
            f"with {name_setting('cluster', str(settings.cluster))}, "
            f"{name_setting('keep', settings.keep)} and "
            f"{name_setting('keep_up_to', settings.keep_up_to)}; leave it out"
        )


def _require_new_files(folder: Path, corpus: FileCorpus, new: FileCorpus) -> None:
    """Requires that no new file is one of the finished run."""
    known = {file.path for file in corpus.files}
    again = next((file for file in new.files if file.path in known), None)
    if again is not None:
        raise UsageError(
            f"{again.shown_path} is an input of {folder} already; give changed and further "
            "documents in new files"
        )
