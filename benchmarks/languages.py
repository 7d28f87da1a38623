"""Texts in ten languages, for the speed of each script. They are generated from short samples.

A text is a random walk over the pairs of characters of a sample, so its letters, marks, lengths of
words and punctuation have about the frequencies of the language. Most words do not exist. A sample
has few of the thousands of ideographs and Hangul syllables. These are replaced by characters of the
national standards, with frequencies by Zipf's law.
"""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

LONGEST_CONTEXT = 2
"""The number of characters that determine the frequencies of the next one."""
SAMPLES = Path(__file__).with_suffix(".toml")


@cache
def load_samples() -> dict[str, str]:
    """Returns a sample of each language. The first is English with typographic characters."""
    return tomllib.loads(SAMPLES.read_text("utf-8"))


def standard_characters(codec: str, first_row: int, last_row: int) -> list[str]:
    """Returns the characters of some rows of a national standard with 94 characters a row.

    Args:
        codec: Python's name of the EUC encoding of the standard.
        first_row: Number of the first row, from 1.
        last_row: Number of the last row.

    Examples:
        >>> standard_characters("gb2312", 16, 16)[:3]
        ['啊', '阿', '埃']
    """
    rows = range(0xA0 + first_row, 0xA0 + last_row + 1)
    return [
        character
        for row in rows
        for cell in range(0xA1, 0xFF)
        if (character := bytes([row, cell]).decode(codec, "ignore"))
    ]


STANDARDS = {
    "Chinese": ("gb2312", 16, 55),
    "Japanese": ("euc_jp", 16, 47),
    "Korean": ("euc_kr", 16, 40),
}
"""The rows of common ideographs, or of Hangul syllables, by language."""


def walk(sample: str, rng: np.random.Generator) -> Iterator[str]:
    """Yields the characters of an endless random walk over a sample.

    Args:
        sample: Text whose end continues at its start.
        rng: Source of random numbers.
    """
    followers: dict[str, Counter[str]] = defaultdict(Counter)
    around = sample + sample[:LONGEST_CONTEXT]
    for at in range(len(sample)):
        followers[around[at : at + LONGEST_CONTEXT]][around[at + LONGEST_CONTEXT]] += 1
    choices = {}
    for context, counts in followers.items():
        shares = np.array(list(counts.values())) / counts.total()
        choices[context] = list(counts), np.cumsum(shares)
    context = around[:LONGEST_CONTEXT]
    while True:
        for number in rng.random(4096):
            characters, ends = choices[context]
            place = min(int(np.searchsorted(ends, number, "right")), len(characters) - 1)
            context = context[1:] + characters[place]
            yield characters[place]


def make_texts(language: str, texts: int, size: int, seed: int = 1) -> list[str]:
    """Returns texts of about `size` bytes of UTF-8.

    Args:
        language: Language with a sample.
        texts: Number of texts.
        size: Size of a text in bytes. It is exceeded by less than one character.
        seed: Random seed.
    """
    samples = load_samples()
    rng = np.random.default_rng([seed, list(samples).index(language)])
    common = ""
    if language in STANDARDS:
        common = "".join(rng.permutation(standard_characters(*STANDARDS[language])))
    shares = 1 / (np.arange(len(common)) + 10.0)
    characters = walk(samples[language], rng)
    made = []
    for _ in range(texts):
        text = []
        rest = size
        while rest > 0:
            text.append(next(characters))
            rest -= len(text[-1].encode())
        if common:
            places = [at for at, character in enumerate(text) if character in common]
            drawn = rng.choice(len(common), len(places), p=shares / shares.sum())
            for at, rank in zip(places, drawn.tolist(), strict=True):
                text[at] = common[rank]
        made.append("".join(text))
    return made
