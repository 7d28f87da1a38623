"""The list of inputs in run.json, with the size, time and hash of each, to detect changes.

A file is identified by its size, its time of modification, and the SHA-256 of samples of its
content. Only a change that keeps the size, is in none of the samples, and leaves or restores the
time goes unseen. A hash of the whole content sees every change.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import NotRequired, TypedDict

from nearkin.corpus.corpus import FileCorpus
from nearkin.corpus.file_names import format_path, hide_password
from nearkin.corpus.input_file import InputFile
from nearkin.errors import RunError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import require_choice

BLOCK = 4 << 20
"""The number of bytes that are hashed at a time."""
THREADS = 4
"""The number of files that are hashed at the same time."""
SAMPLES = 32
"""The number of blocks of a file that are hashed as samples."""
SAMPLE_BYTES = 64 << 10
"""The size of such a block."""


class HashedPart(Enum):
    """The part of the content of an input that is hashed.

    Files that are not larger than all samples are hashed as a whole in any case.
    """

    SAMPLED = "sampled"
    FULL = "full"

    @classmethod
    def parse(cls, name: str) -> "HashedPart":
        """Returns the part that a name stands for."""
        require_choice("hash_inputs", name, (part.value for part in cls))
        return cls(name)


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
    """The SHA-256 as 64 hex digits."""
    hashed: NotRequired[str]
    """`full` if all bytes were hashed. `sampled` if the size and 32 blocks of 64 KiB were hashed.
    Records of version 0.1.0 do not have it: all bytes were hashed."""


def describe_inputs(
    corpus: FileCorpus, hash_inputs: HashedPart = HashedPart.SAMPLED
) -> list[InputRecord]:
    """Returns one entry for each file, and records the status of each file in the corpus.

    If a file changes later, reading it is an error.
    """
    return _describe_each(corpus, [hash_inputs] * len(corpus.files))


def _describe_each(corpus: FileCorpus, parts: Sequence[HashedPart]) -> list[InputRecord]:
    with ThreadPoolExecutor(THREADS, "nearkin-hash") as pool:
        return list(
            pool.map(
                lambda number: _describe_input(corpus, number, parts[number]),
                range(len(corpus.files)),
            )
        )


def _describe_input(corpus: FileCorpus, number: int, part: HashedPart) -> InputRecord:
    file = corpus.files[number]
    status = corpus.require_unchanged(number)
    if status.size <= SAMPLES * SAMPLE_BYTES:
        part = HashedPart.FULL
    try:
        if part == HashedPart.SAMPLED:
            digest = _hash_samples(file, status.size)
        else:
            digest = _hash_content(file)
    except OSError as error:
        raise RunError(
            f"cannot read {file.shown_path}: {error.strerror or error}; "
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
        hashed=part.value,
    )


def _hash_content(file: InputFile) -> str:
    digest = hashlib.sha256()
    with file.open() as stream:
        while block := stream.read_buffer(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _hash_samples(file: InputFile, size: int) -> str:
    """Returns the hash of the size (8 bytes, little-endian) and of evenly spaced blocks.

    The first block is at the beginning of the file, and the last one at its end.
    """
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    with file.open() as stream:
        for number in range(SAMPLES):
            stream.seek((size - SAMPLE_BYTES) * number // (SAMPLES - 1))
            digest.update(stream.read_buffer(SAMPLE_BYTES))
    return digest.hexdigest()


def find_first_change(described: Sequence[InputRecord], corpus: FileCorpus) -> str | None:
    """Returns a sentence about the first difference between recorded and current inputs.

    Contents are hashed as they were hashed before. If they were hashed as a whole, a new time of
    modification alone is not a difference.
    """
    before = {entry["name"]: entry for entry in described}
    parts = [
        HashedPart(before[file.name].get("hashed", "full"))
        if file.name in before
        else HashedPart.SAMPLED
        for file in corpus.files
    ]
    now = {entry["name"]: entry for entry in _describe_each(corpus, parts)}
    if added := sorted(now.keys() - before.keys()):
        return f"the input {format_path(now[added[0]]['path'])} was not there before"
    if gone := sorted(before.keys() - now.keys()):
        return f"the input {format_path(before[gone[0]]['path'])} is missing now"
    for name, entry in before.items():
        change = _describe_change(entry, now[name])
        if change is not None:
            return f"the input {format_path(now[name]['path'])} has changed: {change}"
    return None


def _describe_change(before: InputRecord, now: InputRecord) -> str | None:
    if before["size"] != now["size"]:
        return f"size was {before['size']} and is {now['size']}"
    if before["sha256"] != now["sha256"]:
        return f"sha256 was {before['sha256']} and is {now['sha256']}"
    # Files of pairs record no times, so that equal inputs make equal files.
    modified = before.get("modified", now["modified"])
    if now.get("hashed") == HashedPart.SAMPLED.value and modified != now["modified"]:
        return (
            f"its time of modification was {modified} and is {now['modified']}, and only samples "
            f"of it were hashed; {name_setting('hash_inputs', 'full')} compares contents alone"
        )
    return None
