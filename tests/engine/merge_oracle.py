"""A slow, obvious form of the merging of rows, and random rows to merge."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

RULES = {
    "phone": "first-non-empty",
    "email": "most-frequent",
    "note": "longest",
    "low": "min",
    "high": "max",
    "day": "max",
    "tags": "union",
    "words": "union",
    "flag": "most-frequent",
    "meta": "first-non-empty",
}
NESTED = ("tags", "meta")
"""The columns that CSV and workbooks cannot hold."""
START = datetime(2024, 1, 1, 8)


def make_rows(seed: int, count: int = 60) -> list[dict[str, Any]]:
    """Returns rows of which many have the same text, with values that are often missing."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for at in range(count):
        number = rng.randrange(count // 3)
        row = {
            "id": f"r{at:03}",
            "text": " ".join(f"word{number}x{place}" for place in range(12)),
            "rank": rng.randrange(100),
            "phone": rng.choice(["", "  ", "1", "22", "333", None]),
            "email": rng.choice(["a@x", "b@x", "c@x", "", None]),
            "note": rng.choice(["", "ab", "xyz", "ä b c", "long note", None]),
            "low": rng.choice([None, -1, 0, 9, 10, 2**40]),
            "high": rng.choice([None, -1.5, 0.0, 9.0, 10.25]),
            "day": rng.choice([None, START + timedelta(days=rng.randrange(99), seconds=at)]),
            "tags": rng.choice([None, [], ["a"], ["b", "a"], ["c", "c"], ["é"]]),
            "words": rng.choice([None, "", "red", "red; green", "blue", "green; red"]),
            "flag": rng.choice([None, True, False]),
            "meta": rng.choice([None, {"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        }
        rows.append(row)
    return rows


def is_missing(value: Any) -> bool:
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def merge_by_oracle(rule: str, values: Sequence[Any]) -> tuple[Any, list[int]]:
    """Returns the value of the first row, and the positions of the rows that a new one is from."""
    own = values[0]
    present = [at for at, value in enumerate(values) if not is_missing(value)]
    if not present:
        return own, []
    if rule == "union":
        return join_by_oracle(values, present)
    best = present[0]
    for at in present[1:]:
        if is_better(rule, values, present, at, best):
            best = at
    return values[best], [] if best == 0 else [best]


def is_better(rule: str, values: Sequence[Any], present: list[int], at: int, best: int) -> bool:
    if rule == "first-non-empty":
        return False
    if rule == "longest":
        return len(values[at]) > len(values[best])
    if rule == "most-frequent":
        counts = [sum(values[other] == values[one] for other in present) for one in (at, best)]
        return counts[0] > counts[1]
    return bool(values[at] < values[best] if rule == "min" else values[at] > values[best])


def join_by_oracle(values: Sequence[Any], present: list[int]) -> tuple[Any, list[int]]:
    is_text = isinstance(values[present[0]], str)
    result = [] if is_missing(values[0]) else ([values[0]] if is_text else list(values[0]))
    known = []
    sources = []
    for at in present:
        for part in values[at].split("; ") if is_text else values[at]:
            if at != 0 and part not in known:
                result.append(part)
                sources += [] if at in sources else [at]
            known.append(part)
    if not sources:
        return values[0], []
    return ("; ".join(result) if is_text else result), sources


def merge_all_by_oracle(
    rows: Sequence[dict[str, Any]], rules: dict[str, str]
) -> tuple[list[dict[str, Any]], dict[str, dict[str, list[str]]]]:
    """Returns the rows that are kept, by rank and id, and the sources of their new values."""
    clusters: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["rank"], row["id"])):
        clusters.setdefault(row["text"], []).append(row)
    kept = []
    sources: dict[str, dict[str, list[str]]] = {}
    for members in clusters.values():
        row = dict(members[0])
        for column, rule in rules.items():
            values = [member[column] for member in members]
            row[column], places = merge_by_oracle(rule, values)
            if places:
                named = [members[at]["id"] for at in places]
                sources.setdefault(row["id"], {})[column] = named
        kept.append(row)
    return sorted(kept, key=lambda row: row["id"]), sources
