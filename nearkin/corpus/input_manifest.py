"""The list of inputs in run.json, with the size, time and hash of each, to detect changes."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypedDict

from nearkin.corpus.corpus import FileCorpus
from nearkin.corpus.file_names import format_path, hide_password
from nearkin.corpus.input_file import InputFile
from nearkin.errors import RunError

BLOCK = 4 << 20
"""The number of bytes that are hashed at a time."""
THREADS = 4
"""The number of files that are hashed at the same time."""


class InputRecord(TypedDict):
    """An input file in run.json."""

    path: str
    """The path or URL, without a password."""
    name: str
    """The name relative to the common folder of the inputs."""
    size: int
    """The size in bytes."""
    modified: float
    """The time of the last modification, in seconds since 1970."""
    sha256: str
    """The SHA-256 of the bytes as 64 hex digits."""


def describe_inputs(corpus: FileCorpus) -> list[InputRecord]:
    """Returns one entry for each file, and records the status of each file in the corpus.

    If a file changes later, reading it is an error.

    Raises:
        RunError: If a file cannot be read, or changes while it is hashed.
    """
    with ThreadPoolExecutor(THREADS, "nearkin-hash") as pool:
        return list(
            pool.map(lambda number: _describe_input(corpus, number), range(len(corpus.files)))
        )


def _describe_input(corpus: FileCorpus, number: int) -> InputRecord:
    file = corpus.files[number]
    status = corpus.require_unchanged(number)
    try:
        digest = _hash_content(file)
    except OSError as error:
        raise RunError(
            f"cannot read {format_path(file.path)}: {error.strerror or error}; "
            "correct the problem, or leave the file out"
        ) from error
    corpus.require_unchanged(number)
    # Passwords are not recorded. A resumed run receives its inputs again and compares the content.
    path = hide_password(file.path)
    return InputRecord(
        path=path,
        name=file.name,
        size=status.size,
        modified=status.modified,
        sha256=digest,
    )


def _hash_content(file: InputFile) -> str:
    digest = hashlib.sha256()
    with file.open() as stream:
        while block := stream.read_buffer(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def find_first_change(described: Sequence[InputRecord], corpus: FileCorpus) -> str | None:
    """Returns a sentence about the first difference between recorded and current inputs.

    A new time of modification alone is not a difference.

    Args:
        described: The entries that `describe_inputs` returned earlier.
        corpus: The current inputs.

    Returns:
        The sentence, or None if nothing has changed.
    """
    before = {entry["name"]: entry for entry in described}
    now = {entry["name"]: entry for entry in describe_inputs(corpus)}
    if added := sorted(now.keys() - before.keys()):
        return f"the input {format_path(now[added[0]]['path'])} was not there before"
    if gone := sorted(before.keys() - now.keys()):
        return f"the input {format_path(before[gone[0]]['path'])} is missing now"
    for name, entry in before.items():
        current = now[name]
        change = None
        if entry["size"] != current["size"]:
            change = f"size was {entry['size']} and is {current['size']}"
        elif entry["sha256"] != current["sha256"]:
            change = f"sha256 was {entry['sha256']} and is {current['sha256']}"
        if change is not None:
            return f"the input {format_path(current['path'])} has changed: {change}"
    return None
