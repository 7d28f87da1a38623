"""The newest version of a table of any format, and the check that it is still the newest one."""

import os

from nearkin.corpus.delta_logs import list_log
from nearkin.corpus.delta_tables import open_delta_table
from nearkin.corpus.iceberg_tables import open_iceberg_table
from nearkin.corpus.lance_tables import open_lance_table
from nearkin.corpus.table_folders import TableFolder, TableFormat, is_iceberg_metadata
from nearkin.corpus.table_versions import TableVersion

LOG_FOLDERS = {
    TableFormat.DELTA: "_delta_log",
    TableFormat.ICEBERG: "metadata",
    TableFormat.LANCE: "_versions",
}
"""The folder of a table that receives a file with each new version."""


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


class TableWatch:
    """A check that the version of a table is still the newest one.

    The library of the table is asked by the first check, because the table may have changed since
    it was opened. Later it is asked only if a file was added to the log, or deleted from it.
    """

    def __init__(self, version: TableVersion) -> None:
        self.version = version
        self._log = f"{version.table.path}/{LOG_FOLDERS[version.table.format]}"
        self._log_state: int | list[str] | None = None

    def find_change(self) -> str | None:
        """Returns a sentence about the change of the table since the last call, or None."""
        if not self.version.is_newest:
            return None
        log_state = self._read_log_state()
        if log_state == self._log_state:
            return None
        current = open_newest_version(self.version.table)
        if current.number != self.version.number:
            return (
                f"{self.version.table.description} has changed: its version was "
                f"{self.version.number} and is {current.number}"
            )
        self._log_state = log_state
        return None

    def _read_log_state(self) -> int | list[str]:
        """Returns the time of modification of a local log, or the names of the files of another."""
        if self.version.table.is_remote:
            return list_log(self.version.table.path)
        try:
            return os.stat(self._log).st_mtime_ns  # noqa: PTH116
        except OSError:
            return 0
