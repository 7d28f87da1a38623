"""`-` in place of a file: rows from standard input, and JSON lines to standard output.

The stages of a run read their inputs several times, so standard input is first written to a file.
A result is complete before its first row is written to standard output.
"""

import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearkin.cli.given_options import GivenOptions
from nearkin.cli.standard_streams import (
    ClosedInput,
    require_open_stdout,
    write_to_stdout,
)
from nearkin.runtime.setting_names import name_flag, name_setting

if TYPE_CHECKING:
    from nearkin.corpus import Columns

STANDARD = "-"
"""The name of standard input and of standard output on the command line."""
INPUT_NAME = "stdin"
"""The name of the file that holds standard input, without the suffix of its format. Ids begin with
the whole name if no column holds ids."""
BLOCK = 1 << 20
"""The number of bytes that are copied at a time."""
WITHOUT_FILES = ("overwrite", "resume", "save_signatures", "save_hashes", "json")
"""The options that have no meaning if rows are written to standard output."""


@dataclass(frozen=True)
class StandardFiles:
    """The standard streams that a command reads and writes in place of files.

    Attributes:
        reads: Whether standard input is the input.
        writes: Whether standard output is the output.
        make_folder: Makes the folder of the file that holds standard input, and returns it.
    """

    reads: bool
    writes: bool
    make_folder: Callable[[], Path]

    @property
    def used(self) -> bool:
        """True if a standard stream takes the place of a file."""
        return self.reads or self.writes

    def read_inputs(self, inputs: list[str], columns: "Columns") -> list[str]:
        """Returns the inputs, after standard input was written to a file if it is the input."""
        if not self.reads:
            return inputs
        from nearkin.corpus.input_file import InputFile
        from nearkin.corpus.stream_format import detect_suffix
        from nearkin.runtime.files import disk_errors

        folder = self.make_folder()
        path = folder / INPUT_NAME
        with disk_errors(folder), path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, BLOCK)
        suffix = detect_suffix(InputFile(str(path.absolute()), INPUT_NAME), columns)
        named = path.rename(path.with_name(INPUT_NAME + suffix))
        return [str(named.absolute())]

    def name_output(self, out: Path) -> str:
        """Returns the name of the output for messages."""
        return "standard output" if self.writes else str(out)


def with_standard_files(
    command: Callable[..., None], *, result: str, write_rows: Callable[[Path], None]
) -> Callable[..., None]:
    """Returns a command that understands `-` as its input and as its output.

    The command receives the argument `standard`. When everything else has been checked, it reads
    the inputs that `StandardFiles.read_inputs` returns.
    """

    @wraps(command)
    def run_command(**arguments: Any) -> None:
        inputs = arguments["inputs"]
        output = arguments["output"]
        reads = STANDARD in inputs
        writes = str(output.out) == STANDARD
        _require_usable(inputs, arguments["given"], reads=reads, writes=writes)
        if writes:
            require_open_stdout()
        with ExitStack() as exits:
            if writes:
                folder = exits.enter_context(_temporary_folder())
                # A file of defaults can ask for JSON, which would be mixed with the rows.
                output = replace(output, out=folder / result, json=False)
                standard = StandardFiles(reads, writes, lambda: folder)
            elif reads:
                from nearkin.runtime.outputs import work_folder_of

                # It refuses an output that has no folder beside it.
                work_folder_of(output.out)
                exits.enter_context(_unfinished_runs_deleted(output.out))
                spool_name = output.out.with_name(f"{output.out.name}.stdin")
                folder = work_folder_of(spool_name)
                spool = _claimed_folder(spool_name)
                standard = StandardFiles(reads, writes, lambda: exits.enter_context(spool))
            else:
                folder = output.out
                standard = StandardFiles(reads, writes, lambda: folder)
            with _named_in_errors(folder / INPUT_NAME):
                command(**{**arguments, "output": output, "standard": standard})
            if writes:
                write_rows(output.out)

    parameters = inspect.signature(command).parameters.values()
    run_command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter for parameter in parameters if parameter.name != "standard"]
    )
    return run_command


def _require_usable(inputs: list[str], given: GivenOptions, *, reads: bool, writes: bool) -> None:
    """Requires that the other arguments have a meaning with standard input and standard output."""
    from nearkin.errors import UsageError

    if reads or writes:
        given.require_unused(("dry_run",), "with -, because standard input cannot be read again")
    if writes:
        given.require_unused(
            WITHOUT_FILES,
            f"with {name_setting('out', STANDARD)}, which writes rows and keeps nothing",
        )
    if not reads:
        return
    if len(inputs) > 1:
        raise UsageError(
            "standard input (-) cannot be combined with other inputs; join them before, for "
            "example cat new.jsonl old.jsonl | nearkin dedup - --out -"
        )
    if "resume" in given:
        raise UsageError(
            f"{name_flag('resume')} cannot be combined with the input -, because standard input "
            "cannot be read again; write it to a file, or start again with "
            f"{name_flag('overwrite')}"
        )
    if isinstance(sys.stdin, ClosedInput):
        raise UsageError(
            "standard input is closed; pipe JSON lines or CSV into the command, or name a file"
        )
    if sys.stdin.isatty():
        raise UsageError(
            "standard input is a terminal; pipe JSON lines or CSV into the command, or name a file"
        )


def copy_file(path: Path) -> None:
    """Writes the bytes of a file to standard output."""
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            write_to_stdout(block)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    from nearkin.runtime.files import disk_errors
    from nearkin.runtime.temporary_folder import TemporaryFolder

    with disk_errors(Path(tempfile.gettempdir())):
        folder = TemporaryFolder()
    with folder as path:
        yield path


@contextmanager
def _claimed_folder(name: Path) -> Iterator[Path]:
    """Holds a folder beside an output. If this process is killed, the next run deletes it."""
    from nearkin.runtime.outputs import claimed

    with claimed(name, "nearkin", replaces=True) as claim:
        yield claim.path


@contextmanager
def _named_in_errors(path: Path) -> Iterator[None]:
    """Names standard input in errors about the file that holds it."""
    from nearkin.errors import NearkinError

    try:
        yield
    except NearkinError as error:
        pattern = rf"{re.escape(str(path.absolute()))}(?:\.[a-z0-9]+)*"
        error.args = (re.sub(pattern, "standard input", str(error)),)
        raise


@contextmanager
def _unfinished_runs_deleted(out: Path) -> Iterator[None]:
    """Deletes the work folder of a run that fails, because it cannot be resumed."""
    from nearkin.runs.checkpoint import unfinished_run_id
    from nearkin.runtime.outputs import RUN_SUFFIX, Claim, work_folder_of

    outs = (out, out.with_name(out.name + RUN_SUFFIX))
    previous_runs = [unfinished_run_id(work_folder_of(path)) for path in outs]
    try:
        yield
    except BaseException:
        for path, previous_run in zip(outs, previous_runs, strict=True):
            if unfinished_run_id(work_folder_of(path)) not in (None, previous_run):
                Claim.take(path, "nearkin").remove()
        raise
