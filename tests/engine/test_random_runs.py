"""Random corpora with random options, against an oracle that compares all pairs of documents.

`pytest --full` draws more of them. A failure names its seed, and `--seed N` repeats that run.
"""

import random
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import pytest

import nearkin as nk
from tests.seeds import list_seeds
from tests.stages.shingle import oracle

SEEDS = {False: 60, True: 5000}
"""The number of runs in the quick and in the full form."""
SHOPS = ("north", "south", "", None)
FURTHER = ("Straße", "STRASSE", "naïve", "naive", "C++", "C#", "5", "٥", "日本語", "x-ray", "😀")
"""Words that some steps and versions of the contract make equal."""


class Case(NamedTuple):
    """A run.

    Attributes:
        rows: Documents with the columns id, text, shop and kind.
        options: Options of `nk.dedup` and `nk.pairs`.
        spec: Spec of the shingles.
    """

    rows: list[dict[str, Any]]
    options: dict[str, Any]
    spec: nk.Spec


def draw_text(draw: random.Random, words: list[str], texts: list[str]) -> str:
    """Returns a new text, or a copy of another one with up to two changed words."""
    if draw.random() < 0.05:
        return draw.choice(("", "   "))
    tokens = draw.choice(texts).split() if texts and draw.random() < 0.7 else []
    if not tokens:
        return " ".join(["word", *draw.choices(words, k=draw.randint(1, 14))])
    for _ in range(draw.randrange(3)):
        at = draw.randrange(1, len(tokens))
        change = draw.randrange(4)
        if change == 0:
            tokens[at] = draw.choice(words)
        elif change == 1:
            tokens[at] = tokens[at].upper()
        elif change == 2:
            tokens.insert(at, draw.choice(words))
        elif len(tokens) > 2:
            del tokens[at]
    return draw.choice((" ", "  ", "\n")).join(tokens)


def draw_case(seed: int) -> Case:
    """Returns a corpus and the options of its run."""
    draw = random.Random(seed)
    words = [f"w{number}" for number in range(draw.choice((12, 60, 400)))] + list(FURTHER)
    texts: list[str] = []
    for _ in range(draw.randint(2, 50)):
        texts.append(draw_text(draw, words, texts))
    numbers = draw.sample(range(1000), len(texts))
    ids = draw.choice((numbers, [f"d{number}" for number in numbers]))
    rows = [
        {"id": id, "text": text, "shop": draw.choice(SHOPS), "kind": draw.choice("ab")}
        for id, text in zip(ids, texts, strict=True)
    ]
    steps = draw.choice(((), ("lower",), ("nfkc", "lower"), ("nfkc", "lower", "symbols")))
    version = draw.choice((1, 2, 2)) if "symbols" not in steps else 2
    spec = nk.Spec(
        unit=draw.choice(("words", "words", "chars")),
        n=draw.randint(1, 4),
        normalise=steps,
        version=version,
    )
    options: dict[str, Any] = {
        "text": "text",
        "id": "id",
        "spec": spec,
        "threshold": draw.choice((0.2, 0.5, 0.75, 0.9, 1.0)),
        "max_removed": 1.0,
        "workers": draw.choice((1, 2)),
    }
    if draw.random() < 0.3:
        options |= {"block_by": "shop", "missing_block": draw.choice(("none", "all"))}
    if draw.random() < 0.3:
        options["across"] = "kind"
    return Case(rows, options, spec)


def shingles_of(case: Case, text: str) -> frozenset[int]:
    spec = case.spec
    slow: Callable[..., list[int]] = oracle.character_shingles
    if spec.unit == "words":
        slow = oracle.word_shingles
    return frozenset(slow(text, spec.n, spec.normalise, spec.version))


def content_of(case: Case, text: str) -> tuple[int, ...]:
    spec = case.spec
    slow: Callable[..., list[int]] = oracle.character_content_hash
    if spec.unit == "words":
        slow = oracle.word_content_hash
    return tuple(slow(text, spec.n, spec.normalise, spec.version))


def are_compared(case: Case, a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Returns whether the options allow two documents to be compared."""
    if "across" in case.options and a["kind"] == b["kind"]:
        return False
    if "block_by" not in case.options:
        return True
    if not a["shop"] or not b["shop"]:
        return bool(case.options["missing_block"] == "all")
    return bool(a["shop"] == b["shop"])


def similar_pairs(case: Case) -> dict[frozenset[str], float]:
    """Returns the similarity of each pair that reaches the threshold."""
    sets = [shingles_of(case, row["text"]) for row in case.rows]
    found = {}
    for (a, x), (b, y) in combinations(zip(case.rows, sets, strict=True), 2):
        if x and y and are_compared(case, a, b):
            similarity = len(x & y) / len(x | y)
            if similarity >= case.options["threshold"]:
                found[frozenset((str(a["id"]), str(b["id"])))] = similarity
    return found


def kept_of(case: Case, similar: dict[frozenset[str], float]) -> dict[str, str]:
    """Returns the kept document of each document: the longest first, then the smallest id.

    Exact copies that may be compared with the same documents go with the first of them.
    """
    are_grouped = "across" not in case.options
    rows = sorted(case.rows, key=lambda row: (-len(row["text"].encode()), row["id"]))
    contents = {str(row["id"]): content_of(case, row["text"]) for row in rows}
    kept: list[str] = []
    kept_for: dict[str, str] = {}
    for row in rows:
        name = str(row["id"])
        copied = next(
            (
                str(other["id"])
                for other in rows[: rows.index(row)]
                if contents[name] == contents[str(other["id"])]
                and frozenset((name, str(other["id"]))) in similar
                and ("block_by" not in case.options or (other["shop"] or "") == (row["shop"] or ""))
            ),
            None,
        )
        matches = [
            (-similar[pair], place)
            for place, other in enumerate(kept)
            if (pair := frozenset((name, other))) in similar
        ]
        if copied is not None and are_grouped:
            kept_for[name] = kept_for[copied]
        elif matches:
            kept_for[name] = kept[min(matches)[1]]
        else:
            kept.append(name)
            kept_for[name] = name
    return kept_for


@pytest.mark.parametrize("part", range(4))
def test_random_runs_give_the_result_of_an_oracle(
    part: int, request: pytest.FixtureRequest, full: bool
) -> None:
    for seed in list_seeds(request, SEEDS[full])[part::4]:
        case = draw_case(seed)
        similar = similar_pairs(case)
        told = f"seed {seed}: {case.options}"
        pairs = nk.pairs(
            case.rows,
            expand_exact=True,
            **{name: value for name, value in case.options.items() if name != "max_removed"},
        )
        found = {
            frozenset((row["id_a"], row["id_b"])): row["similarity"]
            for row in pairs.pairs.arrow.to_pylist()
        }
        assert found == pytest.approx(similar), told
        clusters = nk.dedup(case.rows, **case.options).clusters.arrow.to_pylist()
        assert {str(row["id"]): str(row["cluster"]) for row in clusters} == kept_of(
            case, similar
        ), told
        assert {row["id"]: row["kept"] for row in clusters} == {
            row["id"]: row["id"] == row["cluster"] for row in clusters
        }, told
