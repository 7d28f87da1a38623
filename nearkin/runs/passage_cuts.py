"""Cuts of passages in the documents that a deduplication keeps."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.engine import result_tables
from nearkin.engine.clustering import Clustering
from nearkin.engine.options import RunOptions
from nearkin.engine.run import Run
from nearkin.errors import UsageError
from nearkin.runs.document_output import DocumentOutput, KeptCutRequest
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
from nearkin.texts.passages.lines.run import REPEATED_LINES, LineRun
from nearkin.texts.passages.run import PassageOptions, PassageRun

CUTS_TABLE = "cuts.parquet"
"""The table of what was cut."""
LINES_TABLE = "repeated_lines.parquet"
"""The table of the repeated lines or paragraphs."""


def require_cuttable_copies(
    request: KeptCutRequest, columns: Columns, documents: DocumentOutput, *, annotate: bool
) -> None:
    """Requires that the kept documents are copied, and no others, and that parts can be cut."""
    setting = "passages"
    if isinstance(request, LinesRequest):
        setting = request.setting
        if not request.is_cut:
            raise UsageError(
                f"{name_setting('lines_action', str(request.action))} cuts nothing from the kept "
                f"documents; list their {request.unit}s with nearkin passages, or leave it out"
            )
    shown = name_setting(setting, str(request.least))
    if not documents.has_copies:
        raise UsageError(
            f"{shown} rewrites copies of documents, and "
            f"{name_setting('output', documents.output)} copies none; leave one out"
        )
    if annotate or documents.weights is not None:
        other = name_flag("annotate") if annotate else name_setting("document_weights")
        raise UsageError(
            f"{shown} and {other} exclude each other: parts are cut from kept documents, and "
            "all documents are copied; leave one out"
        )
    if documents.merge is not None and columns.source in documents.merge.names:
        raise UsageError(
            f"{shown} and {name_setting('merge_fields', documents.merge.to_record())} exclude each "
            f"other, because both change {columns.source!r}; leave out one"
        )
    _options_of(request, RunOptions()).columns_of(columns)
    if isinstance(request, LinesRequest):
        require_one_column(columns, setting)
    else:
        require_rewritable(columns)


def _options_of(request: KeptCutRequest, options: RunOptions) -> PassageOptions:
    """Returns the options of the run over passages or lines."""
    is_of_lines = isinstance(request, LinesRequest)
    return PassageOptions(
        Spec(n=1) if isinstance(request, LinesRequest) else Spec(unit=request.unit, n=1),
        PassageOptions.least if is_of_lines else request.least,
        source=options.source if is_of_lines else None,
        memory=options.memory,
        workers=options.workers,
    )


@dataclass(frozen=True)
class KeptCuts:
    """The parts that are cut from the documents that a deduplication keeps.

    Attributes:
        texts: What is cut.
        line_run: The run that found repeated lines, or None if passages are cut.
    """

    texts: CutTexts
    line_run: LineRun | None = None

    @classmethod
    def find(cls, run: Run, clustering: Clustering, request: KeptCutRequest) -> "KeptCuts":
        """Finds what is cut from the documents that a run keeps."""
        # The same rows must be documents as in the run, which may have begun with another bound.
        columns = replace(run.columns, carried_columns=())
        options = _options_of(request, run.options)
        kept = np.asarray(clustering.kept)
        order = partial(run.work.load, "order")
        found = LineRun if isinstance(request, LinesRequest) else PassageRun
        documents = found(run.corpus, columns, options, run.work, run.progress, wanted=kept)
        documents.columns = replace(documents.columns, document_limit=columns.document_limit)
        if isinstance(documents, LineRun) and isinstance(request, LinesRequest):
            documents.find_lines(request, order)
            return cls(CutTexts(documents), documents)
        assert isinstance(documents, PassageRun)
        assert isinstance(request, PassageRequest)
        cut_run = CutRun(documents, request.cut, order)
        cut_run.find()
        return cls(cut_run)

    def write_tables(self, folder: Path) -> None:
        """Writes the table of what is cut, and that of the repeated lines."""
        write_cut_table(self.texts, folder)
        if self.line_run is not None:
            write_lines_table(self.line_run, folder)


def write_lines_table(run: LineRun, folder: Path) -> None:
    """Writes the table of repeated lines."""
    result_tables.write_batches(folder / LINES_TABLE, REPEATED_LINES, run.line_batches())


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
