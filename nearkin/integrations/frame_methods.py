"""The methods that data frames of pandas and Polars get under `frame.nearkin`."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar, Unpack

import pyarrow as pa

from nearkin.engine.keywords import RunParameters
from nearkin.errors import UsageError
from nearkin.runs import api
from nearkin.runs.results import DedupResult, ResultTable
from nearkin.runtime.setting_names import name_setting

Frame = TypeVar("Frame")
Series = TypeVar("Series")


class FrameMethods(Generic[Frame, Series]):
    """The methods of a data frame.

    Args:
        frame: The frame.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def dedup(
        self,
        text: str | list[str] | None = None,
        /,
        *,
        id: str | None = None,
        **parameters: Unpack[RunParameters],
    ) -> Frame:
        """Returns the rows that are kept of exact and near-duplicates.

        Args:
            text: Column of texts, or several columns, whose texts are joined. The default is
                `text`.
            id: Column of ids. The default is the row number.
            **parameters: The parameters of `nearkin.dedup`.

        Raises:
            UsageError: If a column does not exist, or a parameter is unknown, out of range or
                changes texts.
        """
        _require_whole_texts(parameters)
        return self._deduplicate(text, id, parameters).filter(self._frame)

    def pairs(
        self,
        text: str | list[str] | None = None,
        /,
        *,
        id: str | None = None,
        **parameters: Unpack[RunParameters],
    ) -> Frame:
        """Returns the pairs of near-duplicates, with their similarity.

        Args:
            text: Column of texts, or several columns, whose texts are joined. The default is
                `text`.
            id: Column of ids. The default is the row number.
            **parameters: The parameters of `nearkin.pairs`.

        Raises:
            UsageError: If a column does not exist, or a parameter is unknown or out of range.
        """
        result = api.pairs(self._frame, id=id, **_with_text(parameters, text))
        return self._to_frame(result.pairs)

    def cluster_ids(
        self,
        text: str | list[str] | None = None,
        /,
        *,
        id: str | None = None,
        **parameters: Unpack[RunParameters],
    ) -> Series:
        """Returns the id of the document that the cluster of each row keeps.

        Rows of one cluster have the same id. A row that is not a document, such as one with a null
        text, has null.

        Args:
            text: Column of texts, or several columns, whose texts are joined. The default is
                `text`.
            id: Column of ids. The default is the row number.
            **parameters: The parameters of `nearkin.dedup`.

        Raises:
            UsageError: If a column does not exist, or a parameter is unknown or out of range.
        """
        return self._to_series(self._deduplicate(text, id, parameters).cluster_ids)

    def _deduplicate(
        self, text: str | list[str] | None, id: str | None, parameters: RunParameters
    ) -> DedupResult:
        return api.dedup(self._frame, id=id, **_with_text(parameters, text))

    @abstractmethod
    def _to_frame(self, table: ResultTable) -> Frame:
        """Returns a table as a frame."""

    @abstractmethod
    def _to_series(self, column: pa.ChunkedArray) -> Series:
        """Returns a column with a value for each row of the frame."""


def _with_text(parameters: RunParameters, text: str | list[str] | None) -> RunParameters:
    """Returns parameters with the columns of texts."""
    if text is None:
        return parameters
    given = parameters.get("text")
    if given is not None:
        raise UsageError(f"the column of texts is {text!r} and {given!r}; give one of them")
    return {**parameters, "text": text}


def _require_whole_texts(parameters: Mapping[str, object]) -> None:
    """Requires that no text is changed, because whole rows are returned."""
    for name in ("passages", "repeated_lines", "repeated_paragraphs"):
        if parameters.get(name) is not None:
            raise UsageError(
                f"{name_setting(name)} changes texts, and rows of the frame are returned as they "
                "are; take nearkin.dedup(frame, ...).kept_documents"
            )
