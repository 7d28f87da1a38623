"""The methods that data frames of pandas and Polars get under `frame.nearkin`."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, Unpack

import pyarrow as pa

from nearkin.engine.keywords import FurtherParameters
from nearkin.errors import UsageError
from nearkin.runs import api
from nearkin.runs.results import ResultTable
from nearkin.runtime.setting_names import name_setting

Frame = TypeVar("Frame")
Series = TypeVar("Series")
CHANGED_ROWS = {
    "passages": "kept_documents",
    "repeated_lines": "kept_documents",
    "repeated_paragraphs": "kept_documents",
    "merge_fields": "merged_rows",
}
"""The parameters that change rows, and what of a result has the changed rows."""


class FrameMethods(Generic[Frame, Series]):
    """The methods of a data frame.

    Args:
        frame: The frame.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def dedup(
        self,
        text: str | Sequence[str] | None = None,
        *,
        id: str | None = None,
        threshold: float | None = None,
        preset: str | None = None,
        keep: str | Callable[..., object] | None = None,
        against: Any = None,
        **further: Unpack[FurtherParameters],
    ) -> Frame:
        """Returns the rows that are kept of exact and near-duplicates.

        Args:
            text: Column of texts, or several columns, whose texts are joined. The default is
                `text`.
            id: Column of ids. The default is the row number.
            threshold: Minimum similarity of near-duplicates, in (0, 1].
            preset: Settings for a kind of data, for example `web`, `articles`, `records` or
                `titles`.
            keep: Keep policy, for example `quality desc, length desc`; or a function of the rows of
                a cluster.
            against: The reference, whose documents are never removed.
            **further: The further parameters of `nearkin.dedup`.

        Raises:
            UsageError: If a column does not exist, or a parameter is unknown, out of range or
                changes rows.
        """
        _require_whole_rows(further)
        kept: Frame = api.dedup(
            self._frame,
            text,
            id=id,
            threshold=threshold,
            preset=preset,
            keep=keep,
            against=against,
            **further,
        ).kept_rows
        return kept

    def pairs(
        self,
        text: str | Sequence[str] | None = None,
        *,
        id: str | None = None,
        threshold: float | None = None,
        preset: str | None = None,
        keep: str | Callable[..., object] | None = None,
        **further: Unpack[FurtherParameters],
    ) -> Frame:
        """Returns the pairs of near-duplicates, with their similarity.

        Args:
            text: Column of texts, or several columns, whose texts are joined. The default is
                `text`.
            id: Column of ids. The default is the row number.
            threshold: Minimum similarity of near-duplicates, in (0, 1].
            preset: Settings for a kind of data, for example `web`, `articles`, `records` or
                `titles`.
            keep: Keep policy, for example `quality desc, length desc`.
            **further: The further parameters of `nearkin.pairs`.

        Raises:
            UsageError: If a column does not exist, or a parameter is unknown or out of range.
        """
        result = api.pairs(
            self._frame,
            text,
            id=id,
            threshold=threshold,
            preset=preset,
            keep=keep,
            **further,
        )
        return self._to_frame(result.pairs)

    def cluster_ids(
        self,
        text: str | Sequence[str] | None = None,
        *,
        id: str | None = None,
        threshold: float | None = None,
        preset: str | None = None,
        keep: str | Callable[..., object] | None = None,
        against: Any = None,
        **further: Unpack[FurtherParameters],
    ) -> Series:
        """Returns the id of the document that the cluster of each row keeps.

        Rows of one cluster have the same id. A row that is not a document, such as one with a null
        text, has null.

        Args:
            text: Column of texts, or several columns, whose texts are joined. The default is
                `text`.
            id: Column of ids. The default is the row number.
            threshold: Minimum similarity of near-duplicates, in (0, 1].
            preset: Settings for a kind of data, for example `web`, `articles`, `records` or
                `titles`.
            keep: Keep policy, for example `quality desc, length desc`; or a function of the rows of
                a cluster.
            against: The reference, whose documents are never removed.
            **further: The further parameters of `nearkin.dedup`.

        Raises:
            UsageError: If a column does not exist, or a parameter is unknown or out of range.
        """
        result = api.dedup(
            self._frame,
            text,
            id=id,
            threshold=threshold,
            preset=preset,
            keep=keep,
            against=against,
            **further,
        )
        return self._to_series(result.cluster_ids)

    @abstractmethod
    def _to_frame(self, table: ResultTable) -> Frame:
        """Returns a table as a frame."""

    @abstractmethod
    def _to_series(self, column: pa.ChunkedArray) -> Series:
        """Returns a column with a value for each row of the frame."""


def _require_whole_rows(parameters: Mapping[str, object]) -> None:
    """Requires that no row is changed, because those of the frame are returned."""
    for name, result in CHANGED_ROWS.items():
        if parameters.get(name) is not None:
            raise UsageError(
                f"{name_setting(name)} changes rows, and those of the frame are returned as they "
                f"are; take nearkin.dedup(frame, ...).{result}"
            )
