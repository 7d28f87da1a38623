"""Functions of the runners that link records: the fields, and the labels of other records."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from shared import files

NOT_FIELDS = ("id", "text", "source", "cluster")
"""The columns that are not fields of a record."""

Record = dict[str, str | None]


def read_records(corpus: str) -> dict[str, Record]:
    """Returns the fields of each record by its id, in lower case. An empty value is None."""
    table = pa.concat_tables([pq.read_table(path) for path in files(corpus)])
    fields = [name for name in table.column_names if name not in NOT_FIELDS]
    return {
        row["id"]: {name: (row[name] or "").lower() or None for name in fields}
        for row in table.to_pylist()
    }


def read_column(corpus: str, name: str) -> dict[str, str]:
    """Returns the values of a column by the ids of the records."""
    table = pa.concat_tables([pq.read_table(path) for path in files(corpus)])
    return dict(zip(table["id"].to_pylist(), table[name].to_pylist(), strict=True))


def field_names(records: Mapping[str, Record]) -> list[str]:
    """Returns the names of the fields that have more than one value."""
    fields = next(iter(records.values()))
    return [name for name in fields if len({record[name] for record in records.values()}) > 1]


def has_two_sources(corpus: str) -> bool:
    """Returns whether the records come from more than one source."""
    return len(set(read_column(corpus, "source").values())) > 1


def parent_folder(corpus: str) -> str:
    """Returns the folder with the labelled records of the other half."""
    return str(Path(corpus).parent / "labelled")
