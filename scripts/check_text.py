"""Checks the rules of CONTRIBUTING.md for text and code that ruff has no rule for.

The script reads Python files (comments, docstrings, messages, assignments and calls), pages and
templates. It prints one line for each finding, and exits with 1 if there are any.

    python scripts/check_text.py [FILE OR FOLDER ...]
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DEFAULT_PATHS = ("nearkin", "tests", "scripts", "benchmarks", "docs", "conformance", "deploy")
DEFAULT_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
TEXT_SUFFIXES = frozenset({".md", ".html", ".js", ".css", ".toml", ".yaml", ".yml", ".sh"})
SKIPPED_FILES = frozenset({"check_text.py", "test_check_text.py"})
"""Files that quote what is looked for."""
SKIPPED_FOLDERS = frozenset({"_build", "_generated", "__pycache__", "node_modules", "work"})
MAX_TARGETS = 2
"""The largest number of targets of one assignment."""

ARCHAISMS = {
    r"anew": "again",
    r"shall": "must, or should",
    r"lest": "so that ... not",
    r"whence|whereof|thereof|therein|herein|hitherto|whereupon|thereupon": "a modern word",
    r"in vain": "without success",
    r"(?<!there )(?:is|are|was|were|be) (?-i:none)\b(?! of)": "is not a ...",
    r"(?<!there )(?:is|was) no (?!longer\b|more\b|less\b|other\b|way\b|one\b|\w+ "
    r"(?:yet|left)\b)": "is not a ...",
    r"(?:gives?|gave|giving) back": "close, return or release",
    r"lets? go of": "delete or release",
    r"(?:takes?|taking|took) out of": "remove from",
    r"who(?:ever)? asks": "caller",
    r"is told|are told|was told": "receives",
    r"would rather": "prefer",
    r"held against": "compared with",
    r"goes? on with": "continue",
    r"index'(?!s)(?= )": "index's",
    r"of its making": "when it was created",
}
"""Patterns of old words and phrases, with what to write instead."""

ARCHAISM_PATTERN = re.compile(
    "|".join(f"(?P<p{number}>\\b(?:{pattern}))" for number, pattern in enumerate(ARCHAISMS)),
    re.IGNORECASE,
)
FRAGMENT_STARTS = re.compile(
    r"(?:Of|From|For|To|In|On|By|At|With|As|Where|What|How|Who|Whose|Whether|Which|It|Back|So "
    r"many|Told)\b"
)
"""First words of a docstring that does not begin with a verb or with a noun phrase."""
ENTRY_FRAGMENTS = re.compile(r"(?:Of|Who|Whose|Where|It|As|So many|Told)\b")
SECTION = re.compile(r"^\s*(?P<name>Args|Attributes|Raises|Returns|Yields|Examples|Note):$")
ENTRY = re.compile(r"^\s*(?P<name>\*{0,2}[\w.]+)(?: \([^)]*\))?: (?P<text>.*)$")


class Finding(NamedTuple):
    """A place that breaks a rule."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def find_archaisms(path: Path, line: int, text: str) -> Iterator[Finding]:
    """Finds old words in a text.

    Args:
        path: The file, for the finding.
        line: The number of the text's first line.
        text: The text, of one or more lines.

    Yields:
        One finding for each word.
    """
    for match in ARCHAISM_PATTERN.finditer(text):
        number = int(str(match.lastgroup)[1:])
        replacement = list(ARCHAISMS.values())[number]
        place = line + text.count("\n", 0, match.start())
        yield Finding(path, place, f"{match.group()!r}: write {replacement!r} instead")


def check_docstring(path: Path, constant: ast.Constant) -> Iterator[Finding]:
    """Checks the first line and the sections of a docstring.

    Args:
        path: The file, for the finding.
        constant: The docstring.

    Yields:
        One finding for each broken rule.
    """
    lines = str(constant.value).splitlines()
    first = lines[0].strip() if lines else ""
    if match := FRAGMENT_STARTS.match(first):
        yield Finding(
            path,
            constant.lineno,
            f"docstring begins with {match.group()!r}; begin with a verb or a noun phrase",
        )
    section = ""
    for number, line in enumerate(lines):
        if match := SECTION.match(line):
            section = match["name"]
        elif section in ("Args", "Attributes", "Raises") and (match := ENTRY.match(line)):
            yield from check_entry(path, constant.lineno + number, section, match["text"])


def check_entry(path: Path, line: int, section: str, text: str) -> Iterator[Finding]:
    """Checks the first words of an entry of a docstring's section.

    Args:
        path: The file, for the finding.
        line: The number of the entry's line.
        section: The section: `Args`, `Attributes` or `Raises`.
        text: The text of the entry.

    Yields:
        A finding, if the entry is a fragment.
    """
    if section == "Raises":
        if not text.startswith("If "):
            yield Finding(path, line, f"Raises entry {text[:30]!r} does not begin with 'If'")
    elif match := ENTRY_FRAGMENTS.match(text):
        yield Finding(
            path, line, f"{section} entry begins with {match.group()!r}; write a noun phrase"
        )


def check_code(path: Path, tree: ast.Module) -> Iterator[Finding]:
    """Checks assignments and calls.

    Args:
        path: The file, for the finding.
        tree: The parsed file.

    Yields:
        One finding for each assignment of too many targets, and for each positional unpacking into
        a constructor.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            if (
                isinstance(target, ast.Tuple)
                and isinstance(node.value, ast.Tuple)
                and len(target.elts) > MAX_TARGETS
            ):
                yield Finding(path, node.lineno, f"{len(target.elts)} targets in one assignment")
        elif isinstance(node, ast.Call) and any(isinstance(a, ast.Starred) for a in node.args):
            name = constructor_name(node.func)
            if name is not None and "tests" not in path.parts:
                yield Finding(path, node.lineno, f"positional unpacking into {name}(...)")


def constructor_name(function: ast.expr) -> str | None:
    """Returns the name of a called class, or None if the call is not one of a class."""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    plain = name.lstrip("_")
    return name if plain[:1].isupper() and not plain.isupper() else None


def docstring_of(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> ast.Constant | None:
    """Returns the docstring of a definition, or None if it has none."""
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first.value if isinstance(first.value.value, str) else None
    return None


def check_python(path: Path) -> Iterator[Finding]:
    """Checks a Python file.

    Args:
        path: The file.

    Yields:
        Its findings.
    """
    source = path.read_text()
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented):
            docstring = docstring_of(node)
            if docstring is not None:
                yield from check_docstring(path, docstring)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from find_archaisms(path, node.lineno, node.value)
    # A tokenizer would take as long as all else; a text with # is a constant above, too.
    for number, line in enumerate(source.splitlines(), 1):
        if "#" in line:
            yield from find_archaisms(path, number, line.partition("#")[2])
    yield from check_code(path, tree)


def check_file(path: Path) -> Iterator[Finding]:
    """Checks a file by its kind.

    Args:
        path: The file.

    Yields:
        Its findings.
    """
    if path.suffix == ".py":
        yield from check_python(path)
    elif path.suffix in TEXT_SUFFIXES:
        yield from find_archaisms(path, 1, path.read_text())


def files_of(paths: list[Path]) -> Iterator[Path]:
    """Lists the files of folders.

    Args:
        paths: Files and folders.

    Yields:
        The files, in the order of their names.
    """
    for path in paths:
        if path.is_file():
            yield path
        for inner in sorted(path.rglob("*")):
            if inner.is_file() and not SKIPPED_FOLDERS.intersection(inner.parts):
                yield inner


def main(arguments: list[str]) -> int:
    """Checks files and prints what is wrong.

    Args:
        arguments: Files and folders; the whole repository if there are none.

    Returns:
        The exit code: 1 if there are findings.
    """
    paths = [Path(argument) for argument in arguments or (*DEFAULT_PATHS, *DEFAULT_PAGES)]
    count = 0
    for path in files_of(paths):
        if path.name not in SKIPPED_FILES:
            for finding in check_file(path):
                print(finding)
                count += 1
    print(f"{count} findings")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
