"""Looking back at a finished run: its documents explained, its result audited, other settings tried over its signatures."""

import stat
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from nearkin.corpus import Columns
from nearkin.corpus.batches import MAX_DOCUMENT
from nearkin.engine.local.run import LocalRun
from nearkin.engine.local.work_folder import WorkFolder
from nearkin.engine.options import Settings
from nearkin.errors import UsageError
from nearkin.evaluate.audit import Audit, audit, banding_of
from nearkin.evaluate.explain import add_run_outcome, explain, find_documents
from nearkin.evaluate.golden import clusters_of, read_golden, score
from nearkin.evaluate.scan import Finished
from nearkin.evaluate.shadow import Shadow, compare
from nearkin.keys import HashKey
from nearkin.measures.explanation import Explanation
from nearkin.report.saved import read_report, write_report
from nearkin.runs.jobs import RUN, SIGNATURES, Saved, read_run
from nearkin.runtime.files import disk_errors, to_json, write_durably
from nearkin.runtime.metrics import QualityMetrics
from nearkin.runtime.outputs import is_half_written, locked
from nearkin.runtime.progress import Progress
from nearkin.sketch.resources import SpecResources

CLUSTERS = "clusters.parquet"
WARM_BELOW = 100_000


def open_finished(folder: Path, secret: HashKey | None = None, workers: int = 2) -> tuple[Finished, dict[str, Any]]:
    """A finished run with its inputs, and what run.json says.

    Raises:
        UsageError: The folder holds no run, or its inputs have changed.
    """
    record = read_run(folder / RUN)
    if "inputs" not in record or "parameters" not in record or not (folder / CLUSTERS).exists():
        raise UsageError(f"{folder} is not the output of nearkin dedup on files")
    saved = Saved(folder, record)
    settings = Settings(spec=saved.spec, workers=workers, **record["parameters"])
    columns = Columns(**{**record["columns"], "extra": tuple(record["columns"]["extra"]), **limit_of(record)})
    resources = SpecResources.read(folder, saved.spec, secret)
    settings.spec.require_key(secret)
    documents = record["stages"]["sketch"]["documents"]
    banding = banding_of(settings, documents, compared_all=not record["bands"])
    return Finished(folder, saved.corpus("quarantine"), columns, settings, resources, banding), record


def explain_in_run(folder: Path, a: str, b: str, secret: HashKey | None = None) -> Explanation:
    """Two documents of a finished run, by their ids: the stages again, and what became of them.

    Raises:
        UsageError: The folder holds no run, its inputs have changed, or it has no such document.
    """
    run, record = open_finished(folder, secret)
    first, second = find_documents(run.corpus, run.columns, folder / CLUSTERS, (a, b))
    pair = explain(
        first.text,
        second.text,
        settings=run.settings,
        resources=run.resources,
        names=(a, b),
        documents=record["stages"]["sketch"]["documents"],
    )
    return add_run_outcome(pair, (first.row, second.row), compared_all=run.banding is None)


def limit_of(record: dict[str, Any]) -> dict[str, int]:
    """Returns the field of `Columns` that says how large the documents of a finished run may be."""
    return {"document_limit": record["stages"]["sketch"].get("document_limit", MAX_DOCUMENT)}


class Audited(NamedTuple):
    """What an audit found, and the metrics of the run with it."""

    audit: Audit
    metrics: QualityMetrics


def audit_run(
    folder: Path,
    progress: Progress,
    secret: HashKey | None = None,
    *,
    sample: int = 1000,
    removed: int = 5000,
    budget: float | None = None,
    seed: int = 1,
    workers: int = 2,
    golden: Path | None = None,
) -> Audited:
    """Audits a finished run, and writes the result into its run.json, report.json and report.html.

    No other process may replace or audit the run meanwhile.

    Args:
        folder: Folder of the run.
        progress: Receives progress updates.
        secret: The key, if the Spec names one.
        sample: Documents compared with the whole corpus.
        removed: Removed documents compared with the kept one.
        budget: Seconds after which no further part of the sample is begun.
        seed: Random seed for sampling.
        workers: Threads.
        golden: Labelled documents for the metric `recall_on_labeled_set`; the audit's own pairs otherwise.
    """
    labels = None if golden is None else read_golden(golden)
    read_run(folder / RUN)
    with locked(folder, "nearkin audit"):
        run, record = open_finished(folder, secret, workers)
        found = audit(run, progress, sample, removed, budget, seed)
        recall = found.recall if labels is None else score(labels, clusters_of(folder / CLUSTERS)).recall
        metrics = QualityMetrics.from_stages(record["stages"], recall.value if recall.total else None)
        record["audit"], record["metrics"] = found.to_dict(), metrics.to_dict()
        mode = stat.S_IMODE((folder / RUN).stat().st_mode)
        report = replace(read_report(folder), audit=found)
        with disk_errors(folder):
            for path in folder.iterdir():
                if is_half_written(path.name):
                    path.unlink()  # left by an audit that was killed
            # each file is replaced whole, so that after a kill the audit is in none, some or all of them; all hold the same run
            write_report(folder, report, mode)
            write_durably(folder / RUN, to_json(record), mode)
    return Audited(found, metrics)


def shadow_run(
    folder: Path,
    against: Mapping[str, Any],
    progress: Progress,
    secret: HashKey | None = None,
    *,
    golden: Path | None = None,
    listed: int = 100,
    workers: int = 2,
) -> Shadow:
    """A run's settings and others over the same signatures, side by side; neither replaces the other.

    Args:
        folder: Of a run saved with signatures.
        against: Settings to change, by their names.
        progress: Who is told.
        secret: The key, if the Spec names one.
        golden: Labelled documents to measure precision and recall by.
        listed: Disagreements to list.
        workers: Threads.

    Raises:
        UsageError: The run kept no signatures, or a setting is none, or bad.
    """
    labels = None if golden is None else read_golden(golden)
    Saved.find((str(folder),))
    run, record = open_finished(folder, secret, workers)
    live = replace(run.settings, then=None)
    other = replace(live, **against)
    signatures = (folder / SIGNATURES).resolve()
    with tempfile.TemporaryDirectory(prefix="nearkin-shadow-") as temporary:
        runs = []
        # Loading kernels takes a third of a second, which the first of two small runs would pay alone.
        warming = [("warm", live)] if record["stages"]["sketch"]["documents"] < WARM_BELOW else []
        for name, settings in (*warming, ("live", live), ("shadow", other)):
            work = WorkFolder.create(Path(temporary) / name, {}, durable=False)
            (work.path / "sketch").symlink_to(signatures, target_is_directory=True)
            with work.stage("sketch") as facts:
                facts.update(record["stages"]["sketch"])
            runs.append(LocalRun(run.corpus, run.columns, settings, work, progress, run.resources))
            runs[-1].to_clusters()
        return compare(runs[-2], runs[-1], labels, listed)
