"""Delta tables in object storage to which listed files belong."""

from collections.abc import Sequence
from typing import Any

from nearkin.corpus.delta_logs import LOG
from nearkin.corpus.foreign_errors import translate_foreign_errors
from nearkin.corpus.remote import EXTRAS, make_url
from nearkin.corpus.remote_errors import HUB, is_denied, parse_protocol
from nearkin.corpus.table_folders import TableFolder, TableFormat
from nearkin.corpus.table_versions import TableVersion, make_missing_file_error


class RemoteTables:
    """The versions of the tables to which the files of one listing belong."""

    def __init__(self, given: str, versions: Sequence[TableVersion] = ()) -> None:
        self._given = given
        self._folders = tuple(f"{version.table.path}/" for version in versions)
        self._versions = {file: version for version in versions for file in version.files}

    def find_version(self, name: str) -> TableVersion | None:
        """Returns the version that a file is a data file of, or None."""
        return self._versions.get(make_url(self._given, name))

    def is_left_out(self, name: str) -> bool:
        """Returns whether a file is in the folder of a table, and not in its newest version."""
        url = make_url(self._given, name)
        return url.startswith(self._folders) and url not in self._versions

    def require_files(self, folder: str, names: Sequence[str]) -> None:
        """Requires that the data files below a folder exist."""
        listed = {make_url(self._given, name) for name in names}
        start = make_url(self._given, folder.rstrip("/")) + "/"
        for file, version in self._versions.items():
            if file.startswith(start) and file not in listed:
                raise make_missing_file_error(version.table, file)


class _DeniedError(Exception):
    """An error: a folder must not be listed."""


def find_enclosing_table(given: str, filesystem: Any, folder: str) -> TableFolder | None:
    """Returns the Delta table that a folder in object storage is, or is inside of, or None.

    Folders above it that may not be listed count as folders without a table.
    """
    protocol = parse_protocol(given)
    # A listing over HTTP is a page, which servers need not have.
    if protocol in EXTRAS:
        return None
    # The folder of a repository on the hub is datasets/ORG/NAME, and nothing above it is a folder.
    fewest_slashes = 2 if protocol == HUB else 0
    folder = folder.rstrip("/")
    while folder and folder.count("/") >= fewest_slashes:
        try:
            with translate_foreign_errors(
                lambda error: _DeniedError() if is_denied(error) else error
            ):
                if filesystem.isdir(f"{folder}/{LOG}"):
                    return TableFolder(make_url(given, folder), TableFormat.DELTA)
        except _DeniedError:
            return None
        folder = folder.rpartition("/")[0]
    return None
