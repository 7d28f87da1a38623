"""Conditions over fields, against the evaluation of their text by Python."""

import random
from itertools import product

import pytest

from nearkin.engine.field_alternatives import MAX_ALTERNATIVES, parse_alternatives
from nearkin.engine.fields import choose_required_field, parse_condition, parse_fields
from nearkin.errors import UsageError

COLUMNS = list("abcde")


def random_condition(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(COLUMNS)
    operands = [random_condition(rng, rng.randrange(depth)) for _ in range(rng.randrange(1, 4))]
    text = f" {rng.choice(['and', 'or'])} ".join(operands)
    return f"({text})" if rng.random() < 0.7 else text


def test_alternatives_hold_where_the_condition_holds() -> None:
    rng = random.Random(1)
    for _ in range(200):
        text = f"(a or b or c or d or e) and ({random_condition(rng, 4)})"
        alternatives = parse_alternatives(text, COLUMNS)
        for values in product([False, True], repeat=len(COLUMNS)):
            holds = any(all(values[at] for at in fields) for fields in alternatives)
            assert holds == eval(text, {}, dict(zip(COLUMNS, values, strict=True)))
        sets = [set(fields) for fields in alternatives]
        assert not any(a < b for a in sets for b in sets)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a field, not 'the end'"),
        ("a and", "expected a field, not 'the end'"),
        ("a b", "expected 'and', 'or' or the end, not 'b'"),
        ("(a or b", r"expected '\)'"),
        ("a)", "expected 'and', 'or' or the end"),
        ("a and or b", "expected a field, not 'or'"),
        ("not a", "unknown field 'not'"),
        ('"a', "a quotation mark is not closed"),
        ("a >= 0.5", "expected 'and', 'or' or the end, not '>='"),
        ("(" * 30 + "a" + ")" * 30, "more than 20 parentheses"),
        ("a and b " * 200, "at most 1,000"),
        ("a and b", "does not name the field 'c'"),
    ],
)
def test_invalid_conditions_are_errors(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_alternatives(text, COLUMNS)


def test_conditions_of_too_many_alternatives_are_errors() -> None:
    columns = [f"c{number}" for number in range(14)]
    text = " and ".join(f"({a} or {b})" for a, b in zip(columns[::2], columns[1::2], strict=True))
    with pytest.raises(UsageError, match=f"more than {MAX_ALTERNATIVES} alternatives"):
        parse_alternatives(text, columns)


def test_candidates_come_from_a_field_of_all_alternatives() -> None:
    rules = parse_fields(["a:jaccard>=0.5", "b:jaccard>=0.9", "c:jaccard>=0.6", "d:hamming<=1"])
    for accept, expected in (
        ("similar", 1),
        ("a and (b or c) and d", 0),
        ("a and c and (b or d)", 2),
    ):
        assert choose_required_field(rules, parse_condition(accept, rules)) == expected


def test_candidates_of_fingerprints_come_from_those_of_the_spec() -> None:
    rules = parse_fields(["a:hamming<=3", "b:hamming/128<=3", "c:hamming<=4"])
    assert choose_required_field(rules, parse_condition("b and (a or c)", rules)) == 1
    with pytest.raises(UsageError, match="a fingerprint of 128 bits, for example 'b'"):
        parse_condition("a and (b or c)", rules)
