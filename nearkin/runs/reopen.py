"""Work on a finished run: explain a pair, audit the result, try other settings."""

import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from nearkin.engine.options import RunOptions
from nearkin.engine.run import Run
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.quality.evaluate.audit import Audit, measure_run, solve_run_bandings
from nearkin.quality.evaluate.explain import (
    add_run_outcome,
    compare_vectors,
    explain,
    explain_acceptance,
    find_documents,
)
from nearkin.quality.evaluate.explain_fields import FieldsExplanation, explain_fields
from nearkin.quality.evaluate.golden import read_clusters, read_golden_set, score_clusters
from nearkin.quality.evaluate.scan import ReopenedRun
from nearkin.quality.evaluate.shadow import ShadowComparison, compare_runs
from nearkin.reports.files import read_report, write_report
from nearkin.runs.extension import CLUSTERS
from nearkin.runs.run_record import RUN, RunRecord, read_run_record
from nearkin.runs.saved import SIGNATURES, SavedRun
from nearkin.runtime.deadline import Deadline
from nearkin.runtime.files import disk_errors, to_json, write_durably
from nearkin.runtime.metrics import QualityMetrics
from nearkin.runtime.outputs import is_half_written, locked
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.settings.choices import ClusterMethod
from nearkin.settings.keys import HashKey
from nearkin.stages.measures.explanation import Explanation
from nearkin.stages.sketch.resources import SpecResources

WARM_UP_BELOW = 100_000
"""The number of documents below which compilation would distort the durations of a comparison."""


def open_finished_run(
    folder: Path,
    secret: HashKey | None = None,
    workers: int = 2,
    *,
    uses_signatures: bool = False,
) -> tuple[ReopenedRun, RunRecord]:
    """Opens a finished run and its inputs."""
    record = read_run_record(folder / RUN)
    files = record.require_files(folder)
    if not (folder / CLUSTERS).exists():
        raise UsageError(f"{folder} is not the output of nearkin dedup on files")
    saved = SavedRun(folder, record)
    settings = RunOptions.from_parameters(record.parameters, saved.spec, workers=workers)
    columns = record.columns_of(folder)
    resources = SpecResources.read(folder, saved.spec, secret)
    settings.spec.require_key(secret)
    documents = record.require_sketch_stats(folder).documents
    bandings = solve_run_bandings(settings, documents) if files.bands else ()
    corpus = saved.open_corpus("quarantine", uses_signatures=uses_signatures)
    candidates = record.stats.candidates
    run = ReopenedRun(folder, corpus, columns, settings, resources, bandings, candidates)
    return run, record


def explain_in_run(
    folder: Path, a: str, b: str, secret: HashKey | None = None
) -> Explanation | FieldsExplanation:
    """Explains why two documents of a finished run were matched or not."""
    run, record = open_finished_run(folder, secret)
    first, second = find_documents(run.corpus, run.columns, folder / CLUSTERS, (a, b))
    decisions = record.require_files(folder).decisions
    followed = ""
    if decisions is not None:
        followed = f"; the run followed the decisions in {decisions.path}"
    if run.settings.fields:
        compared = explain_fields((first, second), run.columns, run.settings, run.resources)
        return replace(compared, why=compared.why + followed)
    second_measure = run.settings.parsed_second_measure
    vectors = None
    if second_measure is not None:
        vectors = compare_vectors(run.corpus, run.columns, second_measure, (first, second))
    pair = explain(
        first.text,
        second.text,
        settings=run.settings,
        resources=run.resources,
        names=(a, b),
        documents=record.require_sketch_stats(folder).documents,
        vectors=vectors,
    )
    pair = add_run_outcome(
        pair,
        (first, second),
        run.settings,
        compared_all=not run.bandings,
        conditions=explain_acceptance((first, second), run.columns, run.settings, run.resources),
    )
    return replace(pair, why=pair.why + followed)


class AuditResult(NamedTuple):
    """The result of an audit, and the metrics of the audited run.

    Attributes:
        audit: The measured precision and recall.
        metrics: The quality metrics of the run, with the measured recall.
    """

    audit: Audit
    metrics: QualityMetrics


def audit_run(
    folder: Path,
    progress: Progress,
    secret: HashKey | None = None,
    *,
    sample: int = 1000,
    removed: int = 5000,
    deadline: Deadline | None = None,
    seed: int = 1,
    workers: int = 2,
    golden: Path | None = None,
) -> AuditResult:
    """Audits a finished run, and writes the result into its run.json, report.json and report.html.

    Meanwhile no other process can replace or audit the run.
    """
    labels = None if golden is None else read_golden_set(golden)
    read_run_record(folder / RUN).require_no_reference(folder, "be audited")
    with locked(folder, "nearkin audit"):
        run, record = open_finished_run(folder, secret, workers)
        audit = measure_run(
            run, progress, sample=sample, removed=removed, deadline=deadline, seed=seed
        )
        recall = audit.recall
        if labels is not None:
            recall = score_clusters(labels, read_clusters(folder / CLUSTERS)).recall
        measured = recall.value if recall.total else None
        metrics = QualityMetrics.from_stages(record.stages, measured)
        audited = record.with_audit(audit, metrics)
        mode = stat.S_IMODE((folder / RUN).stat().st_mode)
        report = replace(read_report(folder), audit=audit)
        with disk_errors(folder):
            for path in folder.iterdir():
                if is_half_written(path.name):
                    # An audit that was killed left it.
                    path.unlink()
            # Each file is replaced as a whole. After a kill the audit is in none, some or all of
            # them, and all of them still describe the same run.
            write_report(folder, report, mode)
            write_durably(folder / RUN, to_json(audited.to_json()), mode)
    return AuditResult(audit, metrics)


def shadow_run(
    folder: Path,
    against: Mapping[str, Any],
    progress: Progress,
    secret: HashKey | None = None,
    *,
    golden: Path | None = None,
    listed: int = 100,
    workers: int = 2,
) -> ShadowComparison:
    """Compares the settings of a run with other settings over the same signatures.

    Neither result replaces the other.
    """
    labels = None if golden is None else read_golden_set(golden)
    SavedRun.find((str(folder),))
    run, record = open_finished_run(folder, secret, workers, uses_signatures=True)
    record.require_no_reference(folder, "be compared with other settings")
    record.require_no_decisions(folder, "be compared with other settings")
    live = replace(run.settings, second_measure=None)
    shadow_options = replace(live, **against)
    threshold = against.get("threshold", shadow_options.threshold)
    if live.acceptance is not None and shadow_options.threshold != threshold:
        raise UsageError(
            f"cannot compare {name_setting('threshold', threshold)} with a run that removed "
            f"documents under the condition {str(live.acceptance)!r}: an acceptance "
            "replaces the threshold; run nearkin dedup again with another condition"
        )
    if "floor" in against and shadow_options.cluster == ClusterMethod.LEADERS:
        raise UsageError(
            f"{name_setting('floor', against['floor'])} has no effect on clusters around leaders; "
            f"leave it out, or compare with {name_setting('cluster', ClusterMethod.COMPONENTS)}"
        )
    signatures = (folder / SIGNATURES).resolve()
    variants = [("live", live), ("shadow", shadow_options)]
    if record.require_sketch_stats(folder).documents < WARM_UP_BELOW:
        # Loading compiled kernels takes a third of a second, which the first of two small runs
        # would pay alone.
        variants.insert(0, ("warm", live))
    with TemporaryFolder() as temporary:
        runs = []
        for name, settings in variants:
            work = WorkFolder.create(temporary / name, {}, durable=False)
            (work.path / "sketch").symlink_to(signatures, target_is_directory=True)
            with work.stage("sketch") as facts:
                facts.update(record.stages["sketch"])
            variant = Run(run.corpus, run.columns, settings, work, progress, run.resources)
            variant.to_clusters()
            runs.append(variant)
        return compare_runs(runs[-2], runs[-1], labels, listed)
