"""Reading of generated files, whose slices are compared whatever their borders are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.formats.base import FileSlice


def read_slices(path: Path, columns: Columns, start: int) -> list[FileSlice]:
    return list(FileCorpus.open([str(path)]).read_slices(0, columns, start, whole=True))


def describe(slices: Sequence[FileSlice]) -> dict[str, Any]:
    """Returns the content of slices, whatever their borders are."""
    filled = [part for part in slices if len(part.rows)]
    return {
        "rows": [row for part in slices for row in part.rows.tolist()],
        "types": {part.documents.schema for part in filled},
        "documents": [row for part in filled for row in part.documents.to_pylist()],
        "rejected": [entry for part in slices for entry in part.rejected],
        "complete": [line for part in filled for line in part.complete_rows],
        "next": slices[-1].next_row if slices else 0,
    }
