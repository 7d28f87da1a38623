"""Writes the list of the kernels that are compiled in advance: `nearkin/runtime/kernels.json`.

Run: python -m scripts.list_kernels

The list is what small runs of all kinds call, with the types of the arguments. Run it after a
change of the arguments of a kernel, and if a run should be covered that is not among them.
"""

import contextlib
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Calls = set[tuple[str, str]]
"""The names of kernels, with the types of arguments."""


def record_calls(run: Callable[[], None]) -> Calls:
    """Runs something, and returns the kernels that Python has called for the first time."""
    from numba.core.dispatcher import Dispatcher

    from nearkin.runtime.installed_code import describe_types

    calls: Calls = set()
    compile_for_arguments = Dispatcher._compile_for_args

    def record(dispatcher: Any, *arguments: Any, **keywords: Any) -> Any:
        before = set(dispatcher.overloads)
        compiled = compile_for_arguments(dispatcher, *arguments, **keywords)
        function = dispatcher.py_func
        if function.__module__.startswith("nearkin."):
            name = f"{function.__module__}.{function.__qualname__}"
            calls.update((name, describe_types(new)) for new in set(dispatcher.overloads) - before)
        return compiled

    Dispatcher._compile_for_args = record
    run()
    return calls


def run_over_files() -> None:
    """Makes runs over files: the demo, those of tests, and one for each preset."""
    from nearkin.cli.app import run
    from nearkin.settings.presets import PRESETS
    from tests.runs.reference_runs import REFERENCE, make_graded, make_runs

    run(["demo", "--out", "demo"])
    Path("reference").mkdir()
    for _ in make_runs(Path("reference"), list(REFERENCE)):
        pass
    Path("graded").mkdir()
    documents = make_graded(Path("graded"))["GRADED"]
    for preset in PRESETS:
        run(["dedup", documents, "--preset", preset, "--out", preset, "--max-removed", "1"])


def run_indexes() -> None:
    """Changes and queries indexes of all kinds of documents."""
    from nearkin.errors import UsageError
    from nearkin.index.index import Index
    from nearkin.index.warm_up import call_kernels
    from nearkin.settings.presets import PRESETS
    from nearkin.settings.spec import Spec
    from tests.index.conftest import corpus

    settings: list[dict[str, Any]] = [{}, {"shingle": "chars:5"}, {"related": 0.5}]
    settings += [{"measure": "weighted-jaccard"}, {"distance": 3}, {"passages": 8}]
    settings += [{"preset": preset} for preset in PRESETS]
    settings += [{"spec": Spec(measure="cosine", unit="vector", n=8, k=256), "threshold": 0.95}]
    for fields in settings:
        # a preset that weights words by their frequencies needs those of a corpus
        with contextlib.suppress(UsageError), Index.open("memory://", **fields) as index:
            call_kernels(index.settings, index.resources, Index.open)
            if not index.holds_vectors:
                texts = corpus(30)
                index.upsert_many("a", texts, [str(number) for number in range(30)])
                index.upsert("a", f"{texts[0]} more", "0")
                index.query("a", texts[1])
                index.remove("a", "0")


def run_commands() -> None:
    """Runs all commands that need no extra."""
    from scripts.core_commands import COMMANDS, run_command, write_documents

    write_documents()
    for line in COMMANDS:
        run_command(line)


RUNS = {"dedup": run_over_files, "index": run_indexes, "other": run_commands}
"""The runs by what their kernels are for."""


def record_use(use: str) -> Calls:
    """Returns the calls of the runs of a use, in a new process and a temporary folder."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return record_calls(RUNS[use])


def main() -> None:
    """Writes the list."""
    from nearkin.runtime.kernel_list import LIST, write_list

    uses = sys.argv[1:] or list(RUNS)
    # a process that has called a kernel for one use would not record it for another one
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        calls = zip(uses, pool.imap(record_use, uses), strict=True)
        write_list((name, types, use) for use, found in calls for name, types in found)
    print(f"{LIST}: {len(json.loads(LIST.read_text()))} kernels")


if __name__ == "__main__":
    main()
