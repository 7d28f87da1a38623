"""Checks that every larger module has a file of tests, or a line in tests/README.md.

The tests of `nearkin/a/b.py` are in `tests/a/test_b.py`. For the other modules, tests/README.md
names the files whose tests run them, or says why there is nothing to test. The script prints one
line for each module that has neither or both, and exits with 1 if there are any.

    python scripts/check_test_files.py [FOLDER]
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

MIN_LINES = 60
"""The number of lines from which a module needs tests of its own, or a reason."""
LIST = Path("tests", "README.md")
ENTRY = re.compile(r"^- `(?P<module>nearkin/[\w/]+\.py)`:(?P<reason>.*)$", re.MULTILINE)
MENTION = re.compile(r"`(tests/[\w/]+\.py)`")


def path_of_tests(module: Path) -> Path:
    """Returns the file with the tests of a module.

    Examples:
        >>> path_of_tests(Path("nearkin/stages/lsh/buckets.py")).as_posix()
        'tests/stages/lsh/test_buckets.py'
    """
    return Path("tests") / module.relative_to("nearkin").with_name(f"test_{module.name}")


def find_larger_modules(root: Path) -> Iterator[Path]:
    """Yields the modules that need tests, relative to the root of the repository.

    Args:
        root: Root of the repository.
    """
    for path in sorted((root / "nearkin").rglob("*.py")):
        if path.name != "__init__.py" and len(path.read_text("utf-8").splitlines()) >= MIN_LINES:
            yield path.relative_to(root)


def check_test_files(root: Path) -> Iterator[str]:
    """Yields a message for each module without tests, and for each wrong line of the list.

    Args:
        root: Root of the repository.
    """
    entries = ENTRY.findall((root / LIST).read_text("utf-8"))
    listed = {Path(module): reason.strip() for module, reason in entries}
    modules = set(find_larger_modules(root))
    for module in sorted(modules - set(listed)):
        if not (root / path_of_tests(module)).exists():
            yield (
                f"{module}: no tests; write {path_of_tests(module)}, or name the files that test "
                f"it in {LIST}"
            )
    for module, reason in listed.items():
        if module not in modules:
            yield f"{LIST}: {module} is not a module of {MIN_LINES} lines or more; delete the line"
        elif (root / path_of_tests(module)).exists():
            yield f"{LIST}: {module} has {path_of_tests(module)}; delete the line"
        elif not reason:
            yield f"{LIST}: {module} has no reason; name the files that test it, or say why none do"
        for name in MENTION.findall(reason):
            if not (root / name).exists():
                yield f"{LIST}: {module}: {name} does not exist"
    if len(listed) < len(entries):
        yield f"{LIST}: a module has two lines; delete one of them"


def main(arguments: list[str]) -> int:
    """Prints what is wrong, and returns the exit code.

    Args:
        arguments: Arguments of the command line: the root of the repository, or none.
    """
    root = Path(arguments[0]) if arguments else Path(__file__).parents[1]
    messages = list(check_test_files(root))
    print(*messages, f"{len(messages)} modules without tests or wrong lines", sep="\n")
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
