"""`nearkin sync`."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from nearkin.cli import options as o
from nearkin.cli.imports import file_imports
from nearkin.cli.index import Scope, Store, open_index
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_facts, print_warnings
from nearkin.runtime.number_range import SHARE
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.setting import RUN, setting
from nearkin.settings.table import IndexKeySettings

if TYPE_CHECKING:
    from nearkin.index.index import Index


@contextmanager
def _open_target(store: str, resources: IndexKeySettings, *, creates: bool) -> "Iterator[Index]":
    """Opens the index, or an empty one in memory if it does not exist and is not created."""
    from nearkin.errors import MissingIndexError

    with ExitStack() as stack:
        try:
            index = stack.enter_context(open_index(store, resources, must_exist=not creates))
        except MissingIndexError:
            index = stack.enter_context(open_index("memory://", resources))
        yield index


@with_option_groups
def sync(
    *,
    inputs: o.InputFiles,
    store: Store,
    resources: IndexKeySettings,
    reading: o.SelectionOptions,
    scope: Scope = "default",
    columns: o.DocumentColumnOptions,
    memory: o.ReadMemory = AUTOMATIC,
    max_removed: float = setting(
        0.5,
        "Largest share of the documents of the scope that may be removed. If there are more, "
        "nothing is changed.",
        RUN,
        common=True,
        metavar="SHARE",
        range=SHARE,
    ),
    full: bool = setting(False, "Read all rows of a table, whatever is known of its changes.", RUN),
    dry_run: bool = setting(False, "Show what would change, and change nothing.", RUN, common=True),
    json: bool = False,
) -> None:
    """Let an index have the documents of a folder or a table.

    New rows are inserted, changed ones updated, and documents removed that no row has any more, by their ids and contents. An interrupted command can be repeated.

    Examples:
        nearkin sync articles/ --id id --store sqlite:///kin.db

        nearkin sync lake/articles --id id --store postgresql://db/kin --scope web --dry-run
    """  # noqa: E501
    with file_imports():
        from nearkin.runs.sync import open_source, sync_files

    named = columns.to_both_columns(memory=memory) or columns.to_columns(memory=memory)
    files = open_source(inputs, named, scope, reading.selection)
    with _open_target(store, resources, creates=not dry_run) as index:
        result = sync_files(
            index, files, scope, max_removed=max_removed, full=full, dry_run=dry_run
        )
    print_warnings(result.warnings)
    print_facts(result.to_dict(), as_json=json)
