"""The promises of docs/explanation/security.md, beside the tests that name them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "explanation" / "security.md"


def list_promises_of_tests() -> Iterator[tuple[str, str]]:
    """Yields each promise that a test names, and the test."""
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text()
        if "mark.promise(" not in text:
            continue
        for test in ast.walk(ast.parse(text)):
            if not isinstance(test, ast.FunctionDef):
                continue
            for decorator in test.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith(
                    "mark.promise"
                ):
                    (promise,) = map(ast.literal_eval, decorator.args)
                    name = path.relative_to(TESTS.parent).as_posix()
                    yield promise, f"{name}::{test.name}"


def test_every_promise_of_security_has_the_test_that_the_page_names() -> None:
    rows = re.findall(r"^\| (.+\.) \| `(tests/\S+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 40
    assert sorted(rows) == sorted(list_promises_of_tests())
