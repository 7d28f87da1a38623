"""Requests to cut passages or lines from the documents that a deduplication over Spark keeps."""

from dataclasses import dataclass

from nearkin.corpus import Columns
from nearkin.engine.spark.run import SparkRun
from nearkin.engine.stats import Stage
from nearkin.errors import UsageError
from nearkin.runs.document_output import DocumentOutput
from nearkin.runs.passage_cuts import require_lines_cuttable, require_passages_cuttable
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.spark.passage_cuts import cut_passages
from nearkin.spark.repeated_lines import SparkRepeatedLines
from nearkin.spark.text_cuts import SparkTextCuts
from nearkin.texts.passages.cutting.request import PassageRequest
from nearkin.texts.passages.lines.request import LinesRequest


@dataclass(frozen=True)
class SparkDocumentCuts:
    """The parts that were cut from the kept documents of a run.

    Attributes:
        texts: The parts that were cut, and the texts without them.
        lines: The repeated lines, or None if passages were cut.
    """

    texts: SparkTextCuts
    lines: SparkRepeatedLines | None = None


@dataclass(frozen=True)
class CutRequests:
    """A request to cut either passages or repeated lines.

    Attributes:
        passages: The passages that are cut, or None.
        lines: The lines or paragraphs that are cut, or None.
    """

    passages: PassageRequest | None = None
    lines: LinesRequest | None = None

    @classmethod
    def parse(
        cls,
        passages: int | str | None,
        cut_unit: str | None,
        min_left: int,
        repeated_lines: int | str | None,
        repeated_paragraphs: int | str | None,
        lines_action: str | None,
    ) -> "CutRequests | None":
        """Returns the request that parameters of `nearkin.spark.dedup` make, or None."""
        lines = LinesRequest.parse_options(repeated_lines, repeated_paragraphs, lines_action, None)
        if lines is not None:
            lines.require_alone(passages=passages, cut_unit=cut_unit, min_left=min_left)
            return cls(lines=lines)
        parsed = PassageRequest.parse(passages, cut_unit, min_left)
        return None if parsed is None else cls(passages=parsed)

    def require_usable(self, columns: Columns) -> None:
        """Requires that the rows of a DataFrame can be cut."""
        if self.passages is not None:
            require_passages_cuttable(self.passages, columns, DocumentOutput(), annotate=False)
        if self.lines is not None:
            require_lines_cuttable(self.lines, columns, DocumentOutput(), annotate=False)

    def require_no_parts(self, *, merge_parts: bool) -> None:
        """Requires that rows of one id are not parts of a document."""
        if merge_parts:
            raise UsageError(
                f"{name_flag('merge_parts')} and {self._setting} exclude each other: text is cut "
                "from whole documents; merge the rows of each document first, or leave out one of "
                "them"
            )

    @property
    def _setting(self) -> str:
        """The setting that makes the request, as messages name it."""
        if self.lines is not None:
            return name_setting(self.lines.setting, str(self.lines.least))
        assert self.passages is not None
        return name_setting("passages", str(self.passages.least))

    def cut(self, run: SparkRun) -> SparkDocumentCuts:
        """Cuts the kept documents of a run."""
        label, documents = run.progress_of(Stage.CUT)
        run.progress.stage(label, documents)
        with run.stage(Stage.CUT):
            if self.lines is not None:
                lines = SparkRepeatedLines(run, self.lines)
                return SparkDocumentCuts(lines.cuts, lines)
            assert self.passages is not None
            return SparkDocumentCuts(cut_passages(run, self.passages))
