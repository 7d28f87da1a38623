"""Completion of the values of options in a shell. The values are loaded when they are needed."""

import glob
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from nearkin.settings.setting import Setting

MOST_ENTRIES = 1000
"""The number of entries of a folder among which its first file is searched."""


def completion_of(setting: Setting) -> Callable[..., list[str]] | None:
    """Returns the function that completes the values of an option."""
    if not setting.values and not setting.names_columns:
        return None

    def complete(ctx: Any, incomplete: str) -> list[str]:
        head = ""
        last = incomplete
        if setting.is_list and "," in incomplete:
            last = incomplete.rpartition(",")[2]
            head = incomplete.removesuffix(last)
        values = list(setting.known_values())
        if setting.names_columns:
            # Arguments before an option without a value are not assigned to a parameter yet.
            inputs = [*(ctx.params.get("inputs") or ()), *ctx.args]
            given = [argument for argument in inputs if not argument.startswith("-")]
            values = [*columns_of_inputs(given), *values]
        return [f"{head}{value}" for value in values if value.startswith(last)]

    return complete


def columns_of_inputs(inputs: Sequence[str]) -> list[str]:
    """Returns the columns of the first file of inputs, as far as they are known at once.

    Nothing is read over a network, and a folder is searched only among its first entries.
    """
    from nearkin.corpus import FileCorpus
    from nearkin.corpus.foreign_errors import DamageError
    from nearkin.errors import NearkinError

    try:
        path = first_file(inputs)
        return [] if path is None else FileCorpus.open([path]).column_names()
    except (NearkinError, DamageError, OSError):
        return []


def first_file(inputs: Sequence[str]) -> str | None:
    """Returns the first local file of inputs, or None if all are remote or missing."""
    for given in inputs:
        if "://" in given:
            continue
        candidates: Iterable[Path] = [Path(given)]
        if Path(given).is_dir():
            entries = islice(Path(given).iterdir(), MOST_ENTRIES)
            candidates = sorted(entry for entry in entries if entry.name[0] not in "._")
        elif glob.has_magic(given):
            names = islice(glob.iglob(given), MOST_ENTRIES)  # noqa: PTH207 (of any folder)
            candidates = map(Path, names)
        for path in candidates:
            if path.is_file():
                return str(path)
    return None
