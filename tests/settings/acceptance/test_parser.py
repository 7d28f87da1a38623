import pytest
from hypothesis import given

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import SettingForm, settings_named_as
from nearkin.settings.acceptance import (
    And,
    Comparison,
    Differ,
    Expression,
    Not,
    NumbersEqual,
    Or,
    Same,
    SaysAll,
)
from nearkin.settings.acceptance.expression import Number, Operator
from nearkin.settings.acceptance.parser import MAX_LENGTH, NAMED_EXPRESSIONS, parse_expression
from tests.settings.acceptance.strategies import EXPRESSIONS

SIMILAR_TEXTS = Comparison(Number.JACCARD, Operator.AT_LEAST, 0.8)


@given(EXPRESSIONS)
def test_a_printed_expression_parses_to_itself(expression: Expression) -> None:
    assert parse_expression(str(expression)) == expression


def test_not_binds_more_tightly_than_and_which_binds_more_tightly_than_or() -> None:
    parsed = parse_expression("not numbers_equal and same(a) or jaccard >= 0.8")
    assert parsed == Or((And((Not(NumbersEqual()), Same("a"))), SIMILAR_TEXTS))
    parsed = parse_expression("says_all and not differ(doi)")
    assert parsed == And((SaysAll(), Not(Differ("doi"))))


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("same(lang)", "lang"),
        ("same ( 1st )", "1st"),
        ("same(größe)", "größe"),
        ("same(meta.lang)", "meta.lang"),
        ('same("a ""b"" (c)")', 'a "b" (c)'),
    ],
)
def test_a_column_is_written_bare_or_in_quotation_marks(text: str, column: str) -> None:
    assert parse_expression(text) == Same(column)


@pytest.mark.parametrize("name", NAMED_EXPRESSIONS)
def test_a_named_expression_is_parsed_as_its_text(name: str) -> None:
    assert parse_expression(f" {name} ") == parse_expression(NAMED_EXPRESSIONS[name])


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 1, "expected a term"),
        ("   ", 4, "expected a term"),
        ("jaccard", 8, "expected one of >=, >, <=, <, == after jaccard"),
        ("jaccard >= ", 12, "expected a number after >="),
        ("jaccard >= x", 12, "expected a number after >="),
        ("jaccard = 0.8", 9, "unexpected '='"),
        ("jaccard >= 80", 12, "jaccard is from 0 to 1, so 80 is out of range"),
        ("witness >= 1e999", 12, "the number is too large"),
        ("jaccard >= 0.8 containment", 16, "expected 'and', 'or' or the end"),
        ("jaccard >= 0.8 and", 19, "expected a term"),
        ("(jaccard >= 0.8", 16, "expected ')'"),
        ("jaccard >= 0.8)", 15, "expected 'and', 'or' or the end"),
        ("not", 4, "expected a term"),
        ("and", 1, "expected a term"),
        ("jacard >= 0.8", 1, "unknown term 'jacard'; did you mean 'jaccard'?"),
        ("safer", 1, "unknown term 'safer'; did you mean 'safe'?"),
        ("jaccard >= 0.8 and safe", 20, "inside another one, write (containment >= 0.9 and"),
        ("similar or contained", 1, "inside another one, write a condition such as jaccard >= 0.8"),
        ("open", 1, "unknown term 'open'; the terms are jaccard, containment"),
        ("same", 5, "expected (COL) after same"),
        ("same()", 6, "expected a column"),
        ("differ", 7, "expected (COL) after differ, for example differ(lang)"),
        ("differ(+)", 8, "unexpected '+'"),
        ("differ(>)", 8, 'write a name with other characters as differ("my column")'),
        ("says_all(doi)", 9, "expected 'and', 'or' or the end"),
        ('same("")', 6, "the name of a column is empty"),
        ("same(a b)", 8, "expected ')'"),
        ('same("a)', 6, "unexpected '\"'"),
        ("__import__('os')", 1, "unknown term '__import__'"),
        ("jaccard.__class__", 8, "unexpected '.'"),
        ("1 <= jaccard", 1, "expected a term"),
        ("jaccard >= -1", 12, "unexpected '-'"),
        ("jaccard >= ٣", 12, "unexpected"),
    ],
)
def test_an_error_names_its_position_and_reason(text: str, position: int, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_expression(text)
    lines = str(caught.value).splitlines()
    assert reason in lines[0]
    assert f"is not valid at character {position}: " in lines[0]
    assert lines[-1] == " " * (position - 1) + "^"


def test_an_error_of_the_command_line_names_the_option() -> None:
    with settings_named_as(SettingForm.OPTION), pytest.raises(UsageError, match="--accept safer"):
        parse_expression("safer")


def test_a_caret_stands_below_its_character_if_the_expression_has_several_lines() -> None:
    with pytest.raises(UsageError) as caught:
        parse_expression("numbers_equal\nand nothing")
    assert str(caught.value).splitlines()[-2:] == ["numbers_equal and nothing", " " * 18 + "^"]


def test_an_error_shows_no_control_characters() -> None:
    with pytest.raises(UsageError) as caught:
        parse_expression("jaccard \x1b[2J\x00\u2028\u202e")
    assert str(caught.value).splitlines()[-2:] == ["jaccard  [2J   ", " " * 8 + "^"]


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("match_weight", 13, r"expected \( after match_weight, for example match_weight\(name"),
        ("match_weight()", 14, "expected a column with weights"),
        ("match_weight(name) >= 5", 14, "expected a column with weights"),
        ("match_weight(name 1:6, 0:-3) >= 5", 24, "expected a column with weights"),
        ("match_weight(name 1:6 0:x) >= 5", 14, "expected a column with weights"),
        ("match_weight(name 0:6 1:2) >= 5", 14, "descend from at most 1 to 0"),
        ("match_weight(name 1.5:6) >= 5", 14, "descend from at most 1 to 0"),
        ("match_weight(name 1:6)", 23, "expected >= and a number"),
        ("match_weight(name 1:6) > 5", 24, "expected >= and a number"),
        ("match_weight(name 1:6) >= five", 24, "expected >= and a number"),
        ("match_weight(name 1:6) >= 5 5", 29, "expected 'and', 'or' or the end"),
    ],
)
def test_an_error_of_weights_names_its_place(text: str, position: int, reason: str) -> None:
    with pytest.raises(UsageError, match=f"at character {position}: .*{reason}") as caught:
        parse_expression(text)
    assert str(caught.value).splitlines()[-1].index("^") == position - 1


def test_nesting_and_length_are_bounded() -> None:
    assert parse_expression("(" * 19 + "numbers_equal" + ")" * 19) == NumbersEqual()
    for text in ("(" * 400, "not " * 200, "(" * 20 + "numbers_equal" + ")" * 20):
        with pytest.raises(UsageError, match="more than 19 parentheses"):
            parse_expression(text)
    with pytest.raises(UsageError, match="4,001 characters; an expression may have at most 4,000"):
        parse_expression(" " * (MAX_LENGTH + 1))
