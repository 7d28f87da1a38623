"""The newest version of a table of any format, and one that a file names."""

import os

from nearkin.corpus.delta_tables import open_delta_table
from nearkin.corpus.iceberg_tables import open_iceberg_table
from nearkin.corpus.lance_tables import open_lance_table
from nearkin.corpus.table_folders import TableFolder, TableFormat, is_iceberg_metadata
from nearkin.corpus.table_versions import TableVersion


def open_newest_version(table: TableFolder) -> TableVersion:
    """Returns the newest version of a table, which is local or a Delta table."""
    if table.format is TableFormat.DELTA:
        return open_delta_table(table)
    if table.is_remote:
        raise table.make_error()
    if table.format is TableFormat.ICEBERG:
        return open_iceberg_table(table)
    if table.format is TableFormat.LANCE:
        return open_lance_table(table)
    raise table.make_error()


def open_named_version(path: str) -> TableVersion | None:
    """Returns the version of a table that a file of its log stands for, or None."""
    folder = os.path.realpath(os.path.dirname(os.path.dirname(path)))  # noqa: PTH120
    if is_iceberg_metadata(path):
        return open_iceberg_table(TableFolder(folder, TableFormat.ICEBERG), path)
    if path.endswith(".manifest") and os.path.dirname(path).endswith("/_versions"):  # noqa: PTH120
        return open_lance_table(TableFolder(folder, TableFormat.LANCE), path)
    return None
