"""Conditions over fields, against the evaluation of their text by Python."""

import random
from itertools import product

import pytest

from nearkin.engine.field_alternatives import MAX_ALTERNATIVES, parse_alternatives
from nearkin.engine.fields import choose_candidate_fields, parse_condition, parse_fields
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
        ("a and b " * 600, "at most 4,000"),
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
        assert choose_candidate_fields(rules, parse_condition(accept, rules)) == (expected,)


def test_each_alternative_has_a_field_that_finds_its_candidates() -> None:
    rng = random.Random(2)
    rules = parse_fields([f"{column}:jaccard>=0.{at + 1}" for at, column in enumerate(COLUMNS)])
    for _ in range(100):
        text = " and ".join([random_condition(rng, 4), *rng.sample(COLUMNS, 2)])
        alternatives = parse_alternatives(f"{text} or (a and b and c and d and e)", COLUMNS)
        chosen = choose_candidate_fields(rules, alternatives)
        assert all(set(fields) & set(chosen) for fields in alternatives)
