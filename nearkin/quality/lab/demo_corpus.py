"""The demo corpora: press releases that are bundled, and the source code of this installation.

The press releases are invented. `scripts/make_demo_corpus.py` writes them into the package.

The other corpus is the source code of this Python installation, one document per function or class.
Every machine that runs nearkin has this text, and it contains real clones: vendored packages,
copied methods and generated code. The documents are:

- Classes and functions of modules, each with its whole source. Decorators belong to the text.
- Methods and inner classes of at least three lines, **if they are at most half as long as their
  class**. The Jaccard similarity of a part and its whole is at most the ratio of their sizes.
  Without the rule, a class with one large method would be a near-duplicate of the method, which
  says nothing about copied code. With the rule, the similarity of such pairs is about 0.5 at most,
  below any usual threshold.
- Functions nested in functions are not separate documents.

Folders of tests (``test``, ``tests``, ``idle_test``) are skipped: they are a third of an
installation, mostly tables of data. A file of site-packages with the relative path of a file of the
standard library is skipped too, as ``import`` does. Relative paths and ids are therefore unique,
and the same on every machine with the same packages.
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

from nearkin.settings.spec import Spec

PRESS_RELEASES = Path(__file__).with_name("press_releases.jsonl")
"""The bundled corpus, with the fields id, source, received, release and text.

`release` is the number of the release that a document is a copy of.
"""
PRESS_RELEASES_KEEP = "source:issuer>wire>daily>portal, length desc"
"""The keep policy of the demo: the text of the issuer is better than one that was edited."""
SOURCE_CODE_SPEC = Spec(n=5, normalise=("nfkc", "lower", "punctuation"))
"""The Spec for source code, in which operators and brackets are words.

Without them, `a < b` and `a >= b` are equal. Shingles of three words are mostly keywords.
"""

SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "idle_test", "__pycache__", "site-packages", "dist-packages"}
)
MIN_LINES = 3
MIN_COPIED_LINES = 12
"""The number of lines from which on an equal function is likely to be copied.

Shorter ones are similar because they have the same signature, for example all `__exit__`.
"""
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


class SourceDocument(NamedTuple):
    """A function or class.

    Attributes:
        id: ``package/module.py:qualified.name:line``, relative to the folder of installation.
        text: Source with decorators. Lines end in a line feed.
        package: Top-level package or module.
        path: Relative path of the file, with slashes.
    """

    id: str
    text: str
    package: str
    path: str


class SourceCorpus(NamedTuple):
    """The numbers of written documents, of read files, and of files that could not be parsed."""

    documents: int
    files: int
    skipped: int


def extract_documents(source: str, path: str) -> list[SourceDocument]:
    r"""Returns the functions and classes of a file in the order of their lines.

    Examples:
        >>> source = "@cached\ndef area(w, h):\n    return w * h\n\n\ndef short(): pass\n"
        >>> documents = extract_documents(source, "kit/shape.py")
        >>> [(document.id, document.text.splitlines()[0]) for document in documents]
        [('kit/shape.py:area:2', '@cached')]
    """
    tree = ast.parse(source)
    lines = source.split("\n")
    package = path.partition("/")[0].removesuffix(".py")
    return [
        SourceDocument(
            f"{path}:{name}:{node.lineno}", _dedent_definition(node, lines), package, path
        )
        for name, node in _find_definitions(tree.body, "", len(source), lines)
    ]


def _find_definitions(
    body: Sequence[ast.stmt], prefix: str, longest: int, lines: Sequence[str]
) -> Iterator[tuple[str, _Definition]]:
    """Yields the names and nodes of the definitions that are documents.

    They have at least three lines. Nested ones are at most half as long as their class.
    """
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            length = _count_characters(node, lines)
            if _line_count(node) >= MIN_LINES and length <= longest:
                yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _find_definitions(node.body, f"{prefix}{node.name}.", length // 2, lines)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _find_definitions(_inner_statements(node), prefix, longest, lines)


def _inner_statements(node: ast.If | ast.Try | ast.With) -> list[ast.stmt]:
    """Returns the statements under a condition, for example `if sys.platform == ...:`.

    They are defined at the same level as the condition.
    """
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


def _count_characters(node: _Definition, lines: Sequence[str]) -> int:
    return sum(map(len, lines[_first_line(node) - 1 : node.end_lineno]))


def _dedent_definition(node: _Definition, lines: Sequence[str]) -> str:
    """Returns the lines of a definition without the indentation of the first line.

    The depth of nesting is not a part of what the code says.
    """
    block = lines[_first_line(node) - 1 : node.end_lineno]
    indentation = block[0][: len(block[0]) - len(block[0].lstrip())]
    return "\n".join(line.removeprefix(indentation) for line in block)


def installation_folders() -> list[Path]:
    """Returns the folders of the standard library and of installed packages, each once."""
    names = ("stdlib", "purelib", "platlib")
    return list(dict.fromkeys(Path(sysconfig.get_path(name)) for name in names))


def list_source_files(folders: Sequence[Path]) -> list[tuple[str, Path]]:
    """Returns the relative paths and the paths of the Python files in some folders.

    The files are in the order of their relative paths. The first file with a relative path is used.
    """
    path_of_name: dict[str, Path] = {}
    for folder in folders:
        for here, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if name not in SKIPPED_FOLDERS]
            for name in names:
                if name.endswith(".py"):
                    path = Path(here, name)
                    path_of_name.setdefault(path.relative_to(folder).as_posix(), path)
    return sorted(path_of_name.items())


class _Reader:
    """An iterator over the documents of many files, which counts read and skipped files."""

    def __init__(self, files: Sequence[tuple[str, Path]]) -> None:
        self.files = 0
        self.skipped = 0
        self._files = files

    def __iter__(self) -> Iterator[SourceDocument]:
        for relative, path in self._files:
            self.files += 1
            try:
                documents = extract_documents(decode_source(path.read_bytes()), relative)
            except (SyntaxError, ValueError, RecursionError, OSError):
                self.skipped += 1
            else:
                yield from documents


@contextmanager
def _fast_parsing() -> Iterator[None]:
    """Turns the garbage collector and warnings off while code is parsed.

    Syntax trees have no cycles, and the search for them doubles the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        if enabled:
            gc.enable()


def write_source_corpus(
    path: str | Path,
    limit: int | None = None,
    folders: Sequence[Path] | None = None,
    least_lines: int = MIN_LINES,
) -> SourceCorpus:
    """Writes the demo corpus to a Parquet file, one batch of documents at a time."""
    reader = _Reader(list_source_files(installation_folders() if folders is None else folders))
    long_enough = (
        source_file for source_file in reader if source_file.text.count("\n") + 1 >= least_lines
    )
    documents = islice(long_enough, limit)
    written = 0
    with _fast_parsing(), pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while batch := list(islice(documents, BATCH_DOCUMENTS)):
            columns = [
                pa.array(column, kind)
                for column, kind in zip(zip(*batch, strict=True), SCHEMA.types, strict=True)
            ]
            writer.write_batch(pa.record_batch(columns, schema=SCHEMA))
            written += len(batch)
    return SourceCorpus(written, reader.files, reader.skipped)
