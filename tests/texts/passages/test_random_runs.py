"""Random texts with random options, against an oracle that compares all windows.

`pytest --full` draws more of them. A failure names its seed, and `--seed N` repeats that run.
"""

from typing import Any

import numpy as np
import pytest

import nearkin
from nearkin.settings.keys import HashKey
from tests.seeds import list_seeds
from tests.texts.passages.cut_texts import CutTexts
from tests.texts.passages.oracle import (
    find_repeated_windows,
    generate_texts,
    locate_tokens,
    require_exact,
)

SEEDS = {False: 40, True: 5000}
"""The number of runs in the quick and in the full form."""
LETTERS = np.array(list("日本語の文章abcé "))
SITES = np.array(["x", "y", ""])


def draw_texts(rng: np.random.Generator, unit: str) -> list[str]:
    """Returns a few texts with repeated passages, over several lines."""
    if unit == "words":
        separators = rng.choice([" ", " ", "  ", "\n", "\r\n", "\n\n"], 7)
        return [
            "".join(word + str(rng.choice(separators)) for word in text.split())
            for text in ["", *generate_texts(rng)]
        ]
    texts = ["".join(rng.choice(LETTERS, int(rng.integers(0, 60)))) for _ in range(4)]
    return [*texts, f"{texts[0][3:40]}終わり", f"始め {texts[1]}", texts[2]]


def draw_options(rng: np.random.Generator, unit: str) -> dict[str, Any]:
    """Returns options that change no passage."""
    options: dict[str, Any] = {
        "workers": int(rng.integers(1, 4)),
        "memory": str(rng.choice(["auto", "1GB"])),
        "spec": nearkin.Spec(unit=unit, n=1, seed=int(rng.integers(0, 3))),
    }
    if rng.random() < 0.3:
        options["key"] = HashKey(rng.bytes(16))
    return options


def repeated_bytes(text: str, windows: set[int], least: int, unit: str) -> int:
    """Returns how many bytes of a text the repeated windows have, with what is between words."""
    bounds = locate_tokens(text, unit)
    covered: set[int] = set()
    for start in windows:
        covered.update(range(bounds[start][0], bounds[start + least - 1][1]))
    return len(covered)


@pytest.mark.parametrize("part", range(2))
def test_passages_are_those_of_an_oracle(
    part: int, request: pytest.FixtureRequest, full: bool
) -> None:
    for seed in list_seeds(request, SEEDS[full])[part::2]:
        rng = np.random.default_rng(seed)
        unit = str(rng.choice(["words", "words", "chars"]))
        texts = draw_texts(rng, unit)
        least = int(rng.integers(2, 15))
        options = draw_options(rng, unit)
        try:
            compare_passages(texts, least, unit, options, rng.choice(SITES, len(texts)).tolist())
            cut_passages(texts, least, options, rng)
        except BaseException as fault:
            fault.add_note(f"seed {seed}: {least} {options} {texts}")
            raise


def compare_passages(
    texts: list[str], least: int, unit: str, options: dict[str, Any], sites: list[str]
) -> None:
    """Compares passages, and what is repeated of documents and sources, with the oracle."""
    rows = [{"text": text, "site": site} for text, site in zip(texts, sites, strict=True)]
    result = nearkin.passages(rows, min_tokens=least, source="site", **options)
    passages = result.passages.arrow
    require_exact(texts, least, passages, unit)
    sizes = [
        repeated_bytes(text, windows, least, unit)
        for text, windows in zip(texts, find_repeated_windows(texts, least, unit), strict=True)
    ]
    documents = result.documents.to_pylist()
    assert [row["repeated_bytes"] for row in documents] == sizes
    assert [row["bytes"] for row in documents] == [len(text.encode()) for text in texts]
    counts = np.bincount(passages["document"].to_numpy(), minlength=len(texts)).tolist()
    assert [row["passages"] for row in documents] == counts
    by_site = {row["source"]: row["repeated_bytes"] for row in result.sources.to_pylist()}
    for site in set(sites):
        of_site = [size for size, other in zip(sizes, sites, strict=True) if other == site]
        assert by_site[site] == sum(of_site)


def cut_passages(
    texts: list[str], least: int, options: dict[str, Any], rng: np.random.Generator
) -> None:
    """Cuts passages from all places but one, and requires that nothing vanishes."""
    cut_unit = str(rng.choice(["passage", "passage", "sentence", "line", "paragraph"]))
    cut = CutTexts(texts, least, cut_unit=cut_unit, min_left=int(rng.integers(0, 20)), **options)
    cut.require_restorable()
    cut.require_nothing_vanished()
    cut.require_only_repetitions_are_cut()
    if cut_unit == "passage":
        assert all(len(places) == 1 for places in cut.complete_places().values())
