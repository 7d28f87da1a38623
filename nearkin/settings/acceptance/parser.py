"""The parser of acceptance expressions.

The grammar, in the order of precedence:

    expression = conjunction { "or" conjunction }
    conjunction = condition { "and" condition }
    condition = "not" condition | "(" expression ")" | comparison | predicate
    comparison = NUMBER ( ">=" | ">" | "<=" | "<" | "==" ) CONSTANT
    predicate = "says_all" | "numbers_equal" | ( "same" | "differ" ) "(" COLUMN ")"
        | "match_weight" "(" weights { "," weights } ")" ">=" WEIGHT
    weights = COLUMN SIMILARITY ":" WEIGHT { SIMILARITY ":" WEIGHT }
"""

import re
from typing import NamedTuple, NoReturn

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean
from nearkin.settings.acceptance.expression import (
    DIFFER,
    MATCH_WEIGHT,
    NUMBERS_EQUAL,
    SAME,
    SAYS_ALL,
    SHARES,
    And,
    ColumnWeights,
    Comparison,
    Differ,
    Expression,
    MatchWeight,
    Not,
    Number,
    NumbersEqual,
    Operator,
    Or,
    Same,
    SaysAll,
    WeightLevel,
)

MAX_LENGTH = 4000
"""The largest number of characters of an expression."""
MAX_DEPTH = 20
"""The largest number of parentheses and `not` around a condition."""
SIMILAR = "similar"
"""The name of the default, for which the threshold alone decides. It is not an expression."""
NAMED_EXPRESSIONS = {
    "safe": "containment >= 0.9 and says_all",
    "contained": "containment >= 0.98",
}
"""The expressions with a name."""
TERMS = (*Number, SAYS_ALL, NUMBERS_EQUAL, SAME, DIFFER, MATCH_WEIGHT)
WORDS = {"and", "or", "not"}
TOKEN = re.compile(
    r"""
    (?P<constant>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<operator>>=|<=|==|>|<)
    | (?P<parenthesis>[()])
    """,
    re.VERBOSE | re.ASCII,
)
COLUMN = re.compile(r"\w+(?:\.\w+)*")
SPACE = re.compile(r"\s*")
LEVEL = r"\d+(?:\.\d+)?:-?\d+(?:\.\d+)?"
WEIGHTS = re.compile(
    rf"""\s*(?P<column>"(?:[^"]|"")+"|\w+(?:\.\w+)*)(?P<levels>(?:\s+{LEVEL})+)\s*(?P<end>[,)])"""
)
LEAST_WEIGHT = re.compile(r"\s*>=\s*(?P<least>-?\d+(?:\.\d+)?)(?![\w.])")
WEIGHTS_EXAMPLE = f"{MATCH_WEIGHT}(name 1:6 0.7:4 0:-3, city 1:2 0:-1) >= 5"


class _Token(NamedTuple):
    """A part of an expression."""

    kind: str
    text: str
    position: int
    """The position of its first character."""


def parse_expression(text: str) -> Expression:
    """Parses an acceptance expression.

    Examples:
        >>> expression = parse_expression("jaccard >= 0.8 and not (witness < 50 or same(lang))")
        >>> print(expression)
        jaccard >= 0.8 and not (witness < 50 or same(lang))
        >>> print(parse_expression("contained"))
        containment >= 0.98
        >>> parse_expression("jacard >= 0.8")
        Traceback (most recent call last):
            ...
        nearkin.errors.UsageError: accept='jacard >= 0.8' is not valid at character 1: unknown term 'jacard'; did you mean 'jaccard'?
        jacard >= 0.8
        ^
    """  # noqa: E501 (the message is one line)
    text = NAMED_EXPRESSIONS.get(text.strip(), text)
    if len(text) > MAX_LENGTH:
        raise UsageError(
            f"{name_setting('accept')} has {len(text):,} characters; an expression may have at "
            f"most {MAX_LENGTH:,}"
        )
    return _Parser(text).parse()


class _Parser:
    """A recursive-descent parser of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._token = _Token("start", "", 0)
        self._end = 0
        self._depth = 0
        self._advance()

    def parse(self) -> Expression:
        """Returns the tree of the expression."""
        expression = self._parse_or()
        if self._token.kind != "end":
            self._fail("expected 'and', 'or' or the end")
        return expression

    def _advance(self) -> _Token:
        """Reads the next token, and returns the current one."""
        current = self._token
        position = self._skip_space()
        if position == len(self._text):
            self._token = _Token("end", "", position)
            return current
        match = TOKEN.match(self._text, position)
        if match is None:
            self._token = _Token("unknown", self._text[position], position)
            self._fail(f"unexpected {self._text[position]!r}")
        self._end = match.end()
        assert match.lastgroup is not None
        self._token = _Token(match.lastgroup, match.group(), position)
        return current

    def _skip_space(self) -> int:
        match = SPACE.match(self._text, self._end)
        assert match is not None
        return match.end()

    def _fail(self, reason: str, token: _Token | None = None) -> NoReturn:
        """Raises the error of a token, by default the current one."""
        position = (token or self._token).position
        # Line breaks and control characters would move the caret, or change the terminal.
        shown = "".join(character if character.isprintable() else " " for character in self._text)
        raise UsageError(
            f"{name_setting('accept', self._text)} is not valid at character {position + 1}: "
            f"{reason}\n{shown}\n{' ' * position}^"
        )

    def _is_word(self, word: str) -> bool:
        return self._token.kind == "word" and self._token.text == word

    def _parse_or(self) -> Expression:
        operands = [self._parse_and()]
        while self._is_word("or"):
            self._advance()
            operands.append(self._parse_and())
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def _parse_and(self) -> Expression:
        operands = [self._parse_condition()]
        while self._is_word("and"):
            self._advance()
            operands.append(self._parse_condition())
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def _parse_condition(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"more than {MAX_DEPTH - 1} parentheses and 'not' around a condition")
        condition = self._parse_nested_condition()
        self._depth -= 1
        return condition

    def _parse_nested_condition(self) -> Expression:
        if self._is_word("not"):
            self._advance()
            return Not(self._parse_condition())
        if self._token.text == "(":
            self._advance()
            expression = self._parse_or()
            self._expect(")")
            return expression
        if self._token.kind != "word" or self._token.text in WORDS:
            self._fail(f"expected a term: one of {', '.join(TERMS)}")
        term = self._token
        if term.text in (SIMILAR, *NAMED_EXPRESSIONS):
            self._fail(
                f"{term.text!r} is the name of a whole expression; {_expand_name(term.text)}"
            )
        if term.text not in TERMS:
            suggestion = did_you_mean(term.text, (*TERMS, SIMILAR, *NAMED_EXPRESSIONS))
            remedy = suggestion or f"; the terms are {', '.join(TERMS)}"
            self._fail(f"unknown term {term.text!r}{remedy}")
        if term.text == SAME:
            return Same(self._parse_column())
        if term.text == DIFFER:
            return Differ(self._parse_column())
        if term.text == MATCH_WEIGHT:
            return self._parse_weights()
        self._advance()
        if term.text == NUMBERS_EQUAL:
            return NumbersEqual()
        if term.text == SAYS_ALL:
            return SaysAll()
        return self._parse_comparison(term)

    def _parse_comparison(self, term: _Token) -> Comparison:
        number = Number(term.text)
        if self._token.kind != "operator":
            self._fail(f"expected one of {', '.join(Operator)} after {number}")
        operator = Operator(self._advance().text)
        constant = self._token
        if constant.kind != "constant":
            self._fail(f"expected a number after {operator}, for example {number} {operator} 0.8")
        value = float(constant.text)
        if number in SHARES and value > 1:
            self._fail(f"{number} is from 0 to 1, so {constant.text} is out of range")
        if value == float("inf"):
            self._fail("the number is too large")
        self._advance()
        return Comparison(number, operator, value)

    def _parse_column(self) -> str:
        """Returns the column in parentheses after the current token, `same` or `differ`."""
        term = self._advance().text
        if self._token.text != "(":
            self._fail(f"expected (COL) after {term}, for example {term}(lang)")
        # A column without quotation marks may begin with a digit, which no other word may.
        position = self._skip_space()
        bare = COLUMN.match(self._text, position)
        if bare is not None:
            self._end = bare.end()
            self._token = _Token("column", bare.group(), position)
        else:
            self._advance()
        column = self._token
        if column.kind not in ("column", "quoted"):
            self._fail(
                f'expected a column; write a name with other characters as {term}("my column")'
            )
        name = column.text
        if column.kind == "quoted":
            name = name[1:-1].replace('""', '"')
        if not name:
            self._fail("the name of a column is empty")
        self._advance()
        self._expect(")")
        return name

    def _parse_weights(self) -> MatchWeight:
        """Returns the weights of columns after the current token, `match_weight`."""
        self._advance()
        if self._token.text != "(":
            self._fail(f"expected ( after {MATCH_WEIGHT}, for example {WEIGHTS_EXAMPLE}")
        columns: list[ColumnWeights] = []
        end = ","
        while end == ",":
            part = WEIGHTS.match(self._text, self._end)
            position = self._skip_space()
            if part is None:
                token = _Token("unknown", "", position)
                self._fail(f"expected a column with weights, for example {WEIGHTS_EXAMPLE}", token)
            column = part["column"]
            if column.startswith('"'):
                column = column[1:-1].replace('""', '"')
            parts = [level.split(":") for level in part["levels"].split()]
            levels = [WeightLevel(float(least), float(weight)) for least, weight in parts]
            similarities = [level.least for level in levels]
            if similarities != sorted(set(similarities), reverse=True) or similarities[0] > 1:
                token = _Token("unknown", "", position)
                self._fail("the similarities of a column descend from at most 1 to 0", token)
            columns.append(ColumnWeights(column, tuple(levels)))
            end = part["end"]
            self._end = part.end()
        least = LEAST_WEIGHT.match(self._text, self._end)
        if least is None:
            token = _Token("unknown", "", self._skip_space())
            self._fail(f"expected >= and a number, for example {WEIGHTS_EXAMPLE}", token)
        self._end = least.end()
        self._advance()
        return MatchWeight(tuple(columns), float(least["least"]))

    def _expect(self, parenthesis: str) -> None:
        if self._token.text != parenthesis:
            self._fail(f"expected {parenthesis!r}")
        self._advance()


def _expand_name(name: str) -> str:
    """Returns what to write instead of the name of an expression inside another one."""
    if name == SIMILAR:
        return "inside another one, write a condition such as jaccard >= 0.8"
    return f"inside another one, write ({NAMED_EXPRESSIONS[name]})"
