"""Functions of source code: free ones, families from one pattern, and revised copies."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.quality.populations.planting import Fields
from benchmarks.quality.populations.words import choose_by_rank, read_words

ENTITIES = read_words("entities")
ACTIONS = read_words("actions")
PROPERTIES = read_words("properties")
FAMILY_SHARE = 0.3
"""The share of the functions that are made from the pattern of an earlier one."""
NEW_FAMILY_SHARE = 0.1
"""The share of these for which a new pattern is made."""
OWN_IDENTIFIERS = 0.6
"""The share of the statements of such a function that have identifiers of their own."""
MOST_REVISED = 0.3
"""The largest share of the statements that a revision adds, deletes or replaces."""
RENAMED_SHARE = 0.3
"""The share of the revisions in which a variable has another name."""
STATEMENTS = (5, 25)
"""Smallest and largest number of statements of a function."""
FORMS = (
    "{a}_{p} = {b}.{q}",
    "{a} = {f}_{b}({c}.{p}, {n})",
    "if {a}.{p} is None:\n        raise ValueError('{b} has no {q}')",
    "if {a}.{p} > {n}:\n        return {b}",
    "for {a} in {b}s:\n        {c}s.append({a}.{p})",
    "{a}s = [{f}_{b}({c}) for {c} in self.{d}s if {c}.{q}]",
    "with open({a}_{p}) as file:\n        {b} = json.load(file)",
    "logger.info('{f} %s of %s', {a}.{p}, {b})",
    "self.{a}s[{b}.{p}] = {c}",
    "{a}.{p} = max({b}.{q}, {n})",
    "try:\n        {a} = self.{f}_{b}({c})\n    except {d_title}Error:\n        return None",
    "assert {a}.{p} == {b}.{q}, {c}",
    "{a} = {b}s.get({c}.{p}, {n})",
    "yield {a}.{p}, {b}.{q}",
    "del self.{a}s[{b}_{p}]",
    "while {a}.{p} < len({b}s):\n        {a}.{p} += {n}",
    "{a} = '{b}/{c}?{p}=' + str({d}.{q})",
    "# the {p} of the {a} follows from the {q} of its {b}",
)


def _fill(rng: random.Random, form: str) -> str:
    """Returns a statement of a form, with identifiers that are drawn by their frequency."""
    entity = choose_by_rank(rng, ENTITIES)
    return form.format(
        a=choose_by_rank(rng, ENTITIES),
        b=choose_by_rank(rng, ENTITIES),
        c=choose_by_rank(rng, ENTITIES),
        d=entity,
        d_title=entity.title(),
        f=choose_by_rank(rng, ACTIONS),
        p=choose_by_rank(rng, PROPERTIES),
        q=choose_by_rank(rng, PROPERTIES),
        n=rng.choice((0, 1, 2, 10, 16, 60, 100, 255, 1000)),
    )


class Statement(NamedTuple):
    """A statement of a function.

    Attributes:
        form: The form, one of `FORMS`.
        text: The statement with its identifiers.
    """

    form: str
    text: str

    @classmethod
    def invent(cls, rng: random.Random, form: str | None = None) -> "Statement":
        """Returns a statement of a form, or of any form."""
        form = form or rng.choice(FORMS)
        return cls(form, _fill(rng, form))


class Function(NamedTuple):
    """A function: its name, the entity that it is about, and its statements."""

    action: str
    entity: str
    statements: Sequence[Statement]

    @classmethod
    def invent(cls, rng: random.Random) -> "Function":
        """Returns a function with statements of its own."""
        return cls(
            choose_by_rank(rng, ACTIONS),
            choose_by_rank(rng, ENTITIES),
            [Statement.invent(rng) for _ in range(rng.randint(*STATEMENTS))],
        )

    def adapt(self, rng: random.Random) -> "Function":
        """Returns a function of the same pattern: the same forms, most with other identifiers."""
        statements = [
            Statement.invent(rng, statement.form) if rng.random() < OWN_IDENTIFIERS else statement
            for statement in self.statements
        ]
        return Function(rng.choice(ACTIONS), rng.choice(ENTITIES), statements)


def invent_functions(rng: random.Random) -> Iterator[Function]:
    """Yields functions without end. Three of ten follow the pattern of an earlier one."""
    patterns: list[Function] = []
    while True:
        if rng.random() >= FAMILY_SHARE:
            yield Function.invent(rng)
            continue
        is_new = not patterns or rng.random() < NEW_FAMILY_SHARE
        patterns.append(Function.invent(rng) if is_new else rng.choice(patterns))
        yield patterns[-1].adapt(rng)


def write_function(rng: random.Random, function: Function) -> Fields:
    """Returns the source of a function."""
    head = f"def {function.action}_{function.entity}(self, {function.entity}):"
    return {"text": "\n    ".join([head, *(each.text for each in function.statements)])}


def revise_function(rng: random.Random, function: Function) -> Fields:
    """Returns a later revision: added, deleted and replaced statements, or a renamed variable."""
    share = rng.uniform(0, MOST_REVISED)
    statements: list[Statement] = []
    for statement in function.statements:
        choice = rng.random()
        if choice < share / 3:
            continue
        if choice < 2 * share / 3:
            statements.append(Statement.invent(rng))
        statements.append(Statement.invent(rng) if choice > 1 - share / 3 else statement)
    if rng.random() < RENAMED_SHARE:
        name = rng.choice(ENTITIES)
        statements = [
            each._replace(text=each.text.replace(f"{name}.", f"current_{name}."))
            for each in statements
        ]
    return write_function(rng, function._replace(statements=statements or function.statements))
