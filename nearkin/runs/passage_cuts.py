"""Cuts of passages in the documents that a deduplication keeps."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.engine import result_tables
from nearkin.engine.clustering import Clustering
from nearkin.engine.run import Run
from nearkin.errors import UsageError
from nearkin.runs.document_output import DocumentOutput
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.settings.spec import Spec
from nearkin.texts.passages.cutting.request import PassageRequest
from nearkin.texts.passages.cutting.run import (
    CUTS,
    CutRun,
    CutTexts,
    require_one_column,
    require_rewritable,
)
from nearkin.texts.passages.lines.request import LinesRequest
from nearkin.texts.passages.lines.run import LineRun
from nearkin.texts.passages.run import DocumentRun, PassageOptions, PassageRun

CUTS_TABLE = "cuts.parquet"
"""The table of what was cut."""


def require_passages_cuttable(
    request: PassageRequest, columns: Columns, documents: DocumentOutput, *, annotate: bool
) -> None:
    """Requires that passages can be cut from the documents in an output."""
    _require_kept_copies(name_setting("passages", str(request.least)), documents, annotate=annotate)
    options_of(request).columns_of(columns)
    require_rewritable(columns)


def require_lines_cuttable(
    request: LinesRequest, columns: Columns, documents: DocumentOutput, *, annotate: bool
) -> None:
    """Requires that repeated lines can be cut from the documents in an output."""
    if not request.is_cut:
        raise UsageError(
            f"{name_setting('lines_action', str(request.action))} cuts nothing from the kept "
            f"documents; list their {request.unit}s with nearkin passages, or leave it out"
        )
    setting = name_setting(request.setting, str(request.least))
    _require_kept_copies(setting, documents, annotate=annotate)
    lines_options_of().columns_of(columns)
    require_one_column(columns, request.setting)


def _require_kept_copies(setting: str, documents: DocumentOutput, *, annotate: bool) -> None:
    """Requires that the kept documents are copied, and no others."""
    if not documents.has_copies:
        raise UsageError(
            f"{setting} rewrites copies of documents, and "
            f"{name_setting('output', documents.output)} copies none; leave one out"
        )
    if annotate or documents.weights is not None:
        other = name_flag("annotate") if annotate else name_setting("document_weights")
        raise UsageError(
            f"{setting} and {other} exclude each other: parts are cut from kept documents, and "
            "all documents are copied; leave one out"
        )


def options_of(request: PassageRequest, memory: int = 4 << 30, workers: int = 1) -> PassageOptions:
    """Returns the options of the run over passages.

    Args:
        memory: Bound on the anonymous memory, in bytes.
    """
    spec = Spec(unit=request.unit, n=1)
    return PassageOptions(spec, request.least, memory=memory, workers=workers)


def lines_options_of(
    memory: int = 4 << 30, workers: int = 1, source: str | None = None
) -> PassageOptions:
    """Returns the options of the run over repeated lines.

    Args:
        memory: Bound on the anonymous memory, in bytes.
    """
    return PassageOptions(Spec(n=1), source=source, memory=memory, workers=workers)


def cut_kept_lines(run: Run, clustering: Clustering, request: LinesRequest) -> LineRun:
    """Cuts the repeated lines of the documents that a run keeps."""
    options = lines_options_of(run.options.memory, run.options.workers, run.options.source)
    lines = LineRun(
        run.corpus,
        replace(run.columns, carried_columns=()),
        options,
        run.work,
        run.progress,
        wanted=np.asarray(clustering.kept),
    )
    _read_same_rows(lines, run)
    lines.find_lines(request, partial(run.work.load, "order"))
    return lines


def _read_same_rows(other: DocumentRun, run: Run) -> None:
    """Makes the same rows documents as in a run, which may have begun with another bound."""
    other.columns = replace(other.columns, document_limit=run.columns.document_limit)


def cut_kept_passages(run: Run, clustering: Clustering, request: PassageRequest) -> CutRun:
    """Cuts the passages of the documents that a run keeps."""
    options = options_of(request, run.options.memory, run.options.workers)
    passages = PassageRun(
        run.corpus,
        replace(run.columns, carried_columns=()),
        options,
        run.work,
        run.progress,
        wanted=np.asarray(clustering.kept),
    )
    _read_same_rows(passages, run)
    cut_run = CutRun(passages, request.cut, partial(run.work.load, "order"))
    cut_run.find()
    return cut_run


def write_cut_table(run: CutTexts, folder: Path) -> None:
    """Writes the table of what is cut."""
    result_tables.write_batches(folder / CUTS_TABLE, CUTS, run.cut_batches())


def write_cut_documents(cuts: CutTexts, corpus: FileCorpus, folder: Path) -> None:
    """Writes the documents without what is cut into `kept/`, and the table of what is cut."""
    (folder / "kept").mkdir()
    write_kept(
        corpus,
        cuts.run.columns,
        cuts.kept,
        folder / "kept",
        cuts.span_column,
        rewrite=cuts.rewrite,
        known=cuts.run.known_documents,
        workers=cuts.run.copying_workers,
    )
    write_cut_table(cuts, folder)
