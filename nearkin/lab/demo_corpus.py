"""The demo corpus: the source code of this Python installation, one document per function or class.

Every machine that runs nearkin has this text, and it holds real clones: vendored packages, copied methods, generated
code. What becomes a document:

- A class is one, as its whole source, methods included; so is a function of a module. Decorators belong to the text.
- What is nested in a class (methods, inner classes) is a document of its own where it has at least three lines **and is
  at most half as long as the class**. The Jaccard similarity of a part and its whole is at most the ratio of their sizes, so a
  class with one big method would otherwise be a near duplicate of that method: noise that says nothing about
  copied code. With the rule such pairs stay near 0.5 or below, under any threshold one deduplicates with.
- Functions nested in functions are part of them.

Folders of tests are left out (``test``, ``tests``, ``idle_test``): they are a third of an installation, mostly tables of
data. A file of site-packages that has the relative path of one in the standard library is left out as well, as it is for
``import``; so relative paths, and with them ids, are unique and the same on every machine with the same packages.
"""

import ast
import gc
import os
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import decode_source
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "idle_test", "__pycache__", "site-packages", "dist-packages"}
)
MIN_LINES = 3
BATCH_DOCUMENTS = 8192
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("package", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
    ]
)

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Document(NamedTuple):
    """One function or class.

    Attributes:
        id: ``package/module.py:qualified.name:line``, relative to the folder the package is installed in.
        text: Its source, decorators included, lines ending in a line feed.
        package: The top-level package or module.
        path: The file, relative, with slashes.
    """

    id: str
    text: str
    package: str
    path: str


class SourceCorpus(NamedTuple):
    """What was written: documents, files read, and files left out because they do not parse or decode."""

    documents: int
    files: int
    skipped: int


def documents_of(source: str, path: str) -> list[Document]:
    """The functions and classes of one file, in the order of their lines.

    Args:
        source: Its text, lines ending in a line feed.
        path: Its relative path, with slashes.

    Raises:
        SyntaxError: It does not parse.
        ValueError: It contains null characters (a SyntaxError from Python 3.12 on).
        RecursionError: It is nested too deeply to be parsed.

    Examples:
        >>> source = "@cached\\ndef area(w, h):\\n    return w * h\\n\\n\\ndef short(): pass\\n"
        >>> [(document.id, document.text.splitlines()[0]) for document in documents_of(source, "kit/shape.py")]
        [('kit/shape.py:area:2', '@cached')]
    """
    tree = ast.parse(source)
    lines = source.split("\n")
    package = path.partition("/")[0].removesuffix(".py")
    return [
        Document(f"{path}:{name}:{node.lineno}", _text(node, lines), package, path)
        for name, node in _definitions(tree.body, "", len(source), lines)
    ]


def _definitions(
    body: Sequence[ast.stmt], prefix: str, longest: int, lines: Sequence[str]
) -> Iterator[tuple[str, _Definition]]:
    """Definitions that are documents: of at least three lines, and nested ones at most half as long as their class."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            length = _length(node, lines)
            if _line_count(node) >= MIN_LINES and length <= longest:
                yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, f"{prefix}{node.name}.", length // 2, lines)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _definitions(_inner_statements(node), prefix, longest, lines)


def _inner_statements(node: ast.If | ast.Try | ast.With) -> list[ast.stmt]:
    """What runs under a condition is defined at the same level: `if sys.platform == ...:` and the like."""
    statements = list(node.body)
    if isinstance(node, ast.Try):
        for handler in node.handlers:
            statements += handler.body
        statements += node.orelse + node.finalbody
    elif isinstance(node, ast.If):
        statements += node.orelse
    return statements


def _first_line(node: _Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _line_count(node: _Definition) -> int:
    return (node.end_lineno or node.lineno) - _first_line(node) + 1


def _length(node: _Definition, lines: Sequence[str]) -> int:
    return sum(map(len, lines[_first_line(node) - 1 : node.end_lineno]))


def _text(node: _Definition, lines: Sequence[str]) -> str:
    """Whole lines, without the indentation of the first, as the nesting depth is no part of what the code says."""
    block = lines[_first_line(node) - 1 : node.end_lineno]
    indentation = block[0][: len(block[0]) - len(block[0].lstrip())]
    return "\n".join(line.removeprefix(indentation) for line in block)


def installation_folders() -> list[Path]:
    """The standard library, then site-packages of the running interpreter, each once."""
    names = ("stdlib", "purelib", "platlib")
    return list(dict.fromkeys(Path(sysconfig.get_path(name)) for name in names))


def source_files(folders: Sequence[Path]) -> list[tuple[str, Path]]:
    """(relative path, path) of the Python files under the folders, in the order of relative paths; the first of equal ones."""
    found: dict[str, Path] = {}
    for folder in folders:
        for here, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if name not in SKIPPED_FOLDERS]
            for name in names:
                if name.endswith(".py"):
                    path = Path(here, name)
                    found.setdefault(path.relative_to(folder).as_posix(), path)
    return sorted(found.items())


class _Reader:
    """Documents of many files, counting files and those that could not be read as Python."""

    def __init__(self, files: Sequence[tuple[str, Path]]) -> None:
        self.files = 0
        self.skipped = 0
        self._files = files

    def __iter__(self) -> Iterator[Document]:
        for relative, path in self._files:
            self.files += 1
            try:
                documents = documents_of(decode_source(path.read_bytes()), relative)
            except (SyntaxError, ValueError, RecursionError, OSError):
                self.skipped += 1
            else:
                yield from documents


@contextmanager
def _undisturbed_parsing() -> Iterator[None]:
    """No cycle collection (syntax trees have none, and looking for some doubles the time), no warnings about others' code."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        if enabled:
            gc.enable()


def write_source_corpus(
    path: str | Path, limit: int | None = None, folders: Sequence[Path] | None = None
) -> SourceCorpus:
    """Writes the corpus as parquet, streaming: a batch of documents at a time.

    Args:
        path: The parquet file; replaced if it exists. Columns: id, text, package, path.
        limit: At most so many documents, the first ones in order.
        folders: Where to look instead of `installation_folders()`.

    Returns:
        How many documents were written, files read and files skipped.
    """
    reader = _Reader(source_files(installation_folders() if folders is None else folders))
    documents = islice(reader, limit)
    written = 0
    with _undisturbed_parsing(), pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while batch := list(islice(documents, BATCH_DOCUMENTS)):
            columns = [
                pa.array(column, kind)
                for column, kind in zip(zip(*batch, strict=True), SCHEMA.types, strict=True)
            ]
            writer.write_batch(pa.record_batch(columns, schema=SCHEMA))
            written += len(batch)
    return SourceCorpus(written, reader.files, reader.skipped)
