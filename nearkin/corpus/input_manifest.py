"""The list of inputs in run.json, with the size, time and hash of each, to detect changes."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nearkin.corpus.corpus import FileCorpus
from nearkin.corpus.file_names import format_path, hide_password
from nearkin.corpus.input_file import InputFile
from nearkin.errors import RunError

BLOCK = 4 << 20
"""The number of bytes that are hashed at a time."""
THREADS = 4
"""The number of files that are hashed at the same time."""


def describe_inputs(corpus: FileCorpus) -> list[dict[str, Any]]:
    """Returns one entry for each file, and records the status of each file in the corpus.

    If a file changes later, reading it is an error.

    Raises:
        RunError: If a file cannot be read, or changes while it is hashed.
    """
    with ThreadPoolExecutor(THREADS, "nearkin-hash") as pool:
        return list(pool.map(lambda number: _entry(corpus, number), range(len(corpus.files))))


def _entry(corpus: FileCorpus, number: int) -> dict[str, Any]:
    file = corpus.files[number]
    status = corpus.require_unchanged(number)
    try:
        digest = _digest(file)
    except OSError as error:
        raise RunError(
            f"cannot read {format_path(file.path)}: {error.strerror or error}; "
            "correct the problem, or leave the file out"
        ) from error
    corpus.require_unchanged(number)
    # Passwords are not recorded. A resumed run receives its inputs again and compares the content.
    path = hide_password(file.path)
    return {
        "path": path,
        "name": file.name,
        "size": status.size,
        "modified": status.modified,
        "sha256": digest,
    }


def _digest(file: InputFile) -> str:
    digest = hashlib.sha256()
    with file.open() as stream:
        while block := stream.read_buffer(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def find_first_change(described: list[dict[str, Any]], corpus: FileCorpus) -> str | None:
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
        for fact in ("size", "sha256"):
            if entry[fact] != now[name][fact]:
                return (
                    f"the input {format_path(now[name]['path'])} has changed: {fact} "
                    f"was {entry[fact]} and is {now[name][fact]}"
                )
    return None
