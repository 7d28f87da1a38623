"""The conditions over fields that decide which documents are near-duplicates.

The grammar, in the order of precedence:

    condition = conjunction { "or" conjunction }
    conjunction = term { "and" term }
    term = "(" condition ")" | COLUMN

A condition becomes its alternatives: the smallest sets of fields that suffice.
"""

import re
from collections.abc import Sequence
from typing import NoReturn

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean
from nearkin.settings.acceptance.parser import MAX_DEPTH, MAX_LENGTH, SIMILAR

MAX_ALTERNATIVES = 64
"""The largest number of alternatives of a condition."""
TOKEN = re.compile(r'\s*(?P<token>[()]|"(?:[^"]|"")*"|[^\s()"]+)')
WORDS = ("and", "or", "(", ")", "")

Alternatives = frozenset[frozenset[int]]


def parse_alternatives(accept: str, columns: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Parses a condition over fields.

    Returns:
        The alternatives: the positions of the fields of each, ascending. No alternative contains
        another one.

    Examples:
        >>> parse_alternatives("title and (body or image)", ["title", "body", "image"])
        ((0, 1), (0, 2))
        >>> parse_alternatives("similar", ["title", "body"])
        ((0, 1),)
    """
    if accept.strip() == SIMILAR:
        return (tuple(range(len(columns))),)
    if len(accept) > MAX_LENGTH:
        raise UsageError(
            f"{name_setting('accept')} has {len(accept):,} characters; a condition over fields may "
            f"have at most {MAX_LENGTH:,}"
        )
    parser = _Parser(accept, columns)
    alternatives = parser.parse()
    for position, column in enumerate(columns):
        if position not in parser.named:
            raise UsageError(
                f"{name_setting('accept', accept)} does not name the field {column!r}; add it, or "
                "leave out the field"
            )
    return tuple(sorted(tuple(sorted(alternative)) for alternative in alternatives))


class _Parser:
    """A recursive-descent parser of one condition."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self._text = text
        self._columns = columns
        self._end = 0
        self._depth = 0
        self._token = ""
        self.named: set[int] = set()
        self._advance()

    def parse(self) -> Alternatives:
        """Returns the alternatives of the condition."""
        alternatives = self._parse_or()
        if self._token:
            self._fail(f"expected 'and', 'or' or the end, not {self._token!r}")
        return alternatives

    def _advance(self) -> None:
        """Reads the next token, which is empty at the end."""
        match = TOKEN.match(self._text, self._end)
        if match is not None:
            self._token = match["token"]
            self._end = match.end()
            return
        if self._text[self._end :].strip():
            self._fail("a quotation mark is not closed")
        self._token = ""

    def _fail(self, reason: str) -> NoReturn:
        raise UsageError(
            f"{name_setting('accept', self._text)} is not valid: {reason}; join the fields "
            f"{', '.join(map(repr, self._columns))} by 'and' and 'or'"
        )

    def _parse_or(self) -> Alternatives:
        alternatives = self._parse_and()
        while self._token == "or":
            self._advance()
            alternatives = self._keep_smallest(alternatives | self._parse_and())
        return alternatives

    def _parse_and(self) -> Alternatives:
        alternatives = self._parse_term()
        while self._token == "and":
            self._advance()
            others = self._parse_term()
            alternatives = self._keep_smallest(
                frozenset(one | other for one in alternatives for other in others)
            )
        return alternatives

    def _parse_term(self) -> Alternatives:
        if self._token == "(":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                self._fail(f"more than {MAX_DEPTH} parentheses around a field")
            self._advance()
            alternatives = self._parse_or()
            if self._token != ")":
                self._fail("expected ')'")
            self._depth -= 1
            self._advance()
            return alternatives
        if self._token in WORDS:
            self._fail(f"expected a field, not {self._token or 'the end'!r}")
        column = self._token
        if column.startswith('"'):
            column = column[1:-1].replace('""', '"')
        if column not in self._columns:
            self._fail(f"unknown field {column!r}{did_you_mean(column, self._columns)}")
        position = self._columns.index(column)
        self.named.add(position)
        self._advance()
        return frozenset([frozenset([position])])

    def _keep_smallest(self, alternatives: Alternatives) -> Alternatives:
        """Returns the alternatives that contain no other one."""
        smallest = frozenset(
            fields for fields in alternatives if not any(other < fields for other in alternatives)
        )
        if len(smallest) > MAX_ALTERNATIVES:
            self._fail(f"it has more than {MAX_ALTERNATIVES} alternatives")
        return smallest
