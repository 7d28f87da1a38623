"""Lance tables: the manifest of a version, which stands for the table among the input files.

A manifest lists the fragments of a version and the rows that were deleted from them. The files that
it names never change.
"""

import os
from typing import Any

from nearkin.corpus.file_names import format_path
from nearkin.corpus.table_folders import TableFolder, TableFormat
from nearkin.corpus.table_versions import TableVersion, table_library_errors
from nearkin.errors import UsageError

LARGEST_VERSION = (1 << 64) - 1
"""Names of manifests have this number minus the version, so that the newest one is listed first."""


def open_lance_table(table: TableFolder, manifest: str | None = None) -> TableVersion:
    """Returns a version of a local Lance table."""
    with table_library_errors(table):
        dataset = open_dataset(manifest or table.path)
        version = int(dataset.version)
        bases = dataset.base_paths()
    if bases:
        raise UsageError(
            f"{table.description} has data files outside of its folder, as clones do; use "
            f"nk.dedup(lance.dataset({table.path!r}))"
        )
    file = _find_manifest(table, version)
    return TableVersion(table, version, (file,))


def open_dataset(path: str) -> Any:
    """Returns the Lance dataset that an input file stands for."""
    folder, separator, name = path.rpartition("/_versions/")
    table = TableFolder(folder if separator else path, TableFormat.LANCE)
    with table_library_errors(table):
        import lance

        if not separator:
            return lance.dataset(path)
        number = int(name.removesuffix(".manifest"))
        version = number if number <= LARGEST_VERSION // 2 else LARGEST_VERSION - number
        return lance.dataset(folder, version=version)


def require_readable_names(dataset: Any) -> None:
    """Requires that Lance can read each column of a dataset of its own."""
    for name in dataset.schema.names:
        if "`" in name:
            change = {"path": "`" + name.replace("`", "``") + "`", "name": "NAME"}
            raise UsageError(
                f"cannot read the Lance table {format_path(dataset.uri)}: its library does not "
                f"read tables with a backtick in the name of a column ({name!r}); rename the "
                f"column with lance.dataset(PATH).alter_columns({change})"
            )


def _find_manifest(table: TableFolder, version: int) -> str:
    """Returns the path of the manifest of a version, whose name is of the newer or older form."""
    for name in (f"{LARGEST_VERSION - version:020d}", str(version)):
        path = f"{table.path}/_versions/{name}.manifest"
        if os.path.isfile(path):  # noqa: PTH113
            return path
    raise UsageError(
        f"the manifest of version {version} of {table.description} is missing; repair the table, "
        "or leave it out"
    )
