"""Errors of people and machines that copy a text.

The errors of characters are those of the generator of FEBRL (Christen, "Probabilistic Data
Generation for Deduplication and Data Linkage", IDEAL 2005): an inserted, deleted, replaced or
transposed character, where a replacement is a neighbour on the keyboard or a similar glyph, and a
changed space.
"""

import random
from collections.abc import Callable, Mapping, Sequence

KEYBOARD = (
    "qwertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "1234567890",
)
"""The rows of a keyboard."""
GLYPHS: Mapping[str, str] = {
    "o": "0", "0": "o", "l": "1", "1": "l", "s": "5", "5": "s", "b": "8", "8": "b", "g": "9",
    "9": "g", "u": "v", "v": "u", "m": "n", "n": "m", "e": "c", "c": "e",
}  # fmt: skip
"""A glyph that a reading machine takes for another one."""
SOUNDS = (
    ("ph", "f"), ("ck", "k"), ("ie", "y"), ("ee", "ea"), ("ou", "u"), ("th", "t"), ("ll", "l"),
    ("ss", "s"), ("mac", "mc"), ("sch", "sh"), ("wh", "w"), ("gh", "g"), ("tt", "t"), ("c", "k"),
)  # fmt: skip
"""Spellings that sound alike."""


def _neighbour(rng: random.Random, character: str) -> str:
    """Returns a neighbour of a character on the keyboard, or a random letter."""
    for row in KEYBOARD:
        place = row.find(character.lower())
        if place >= 0:
            neighbours = row[max(place - 1, 0) : place] + row[place + 1 : place + 2]
            return rng.choice(neighbours)
    return rng.choice("abcdefghijklmnopqrstuvwxyz")


def _insert(rng: random.Random, text: str) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice("abcdefghijklmnopqrstuvwxyz") + text[place:]


def _delete(rng: random.Random, text: str) -> str:
    place = rng.randrange(len(text))
    return text[:place] + text[place + 1 :]


def _replace(rng: random.Random, text: str) -> str:
    place = rng.randrange(len(text))
    return text[:place] + _neighbour(rng, text[place]) + text[place + 1 :]


def _misread(rng: random.Random, text: str) -> str:
    places = [place for place, character in enumerate(text) if character.lower() in GLYPHS]
    if not places:
        return _replace(rng, text)
    place = rng.choice(places)
    return text[:place] + GLYPHS[text[place].lower()] + text[place + 1 :]


def _transpose(rng: random.Random, text: str) -> str:
    if len(text) < 2:
        return text
    place = rng.randrange(len(text) - 1)
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]


def _respell(rng: random.Random, text: str) -> str:
    spellings = [(sound, other) for sound, other in SOUNDS if sound in text]
    if not spellings:
        return _replace(rng, text)
    sound, other = rng.choice(spellings)
    return text.replace(sound, other, 1)


def _change_space(rng: random.Random, text: str) -> str:
    spaces = [place for place, character in enumerate(text) if character == " "]
    if spaces and rng.random() < 0.7:
        place = rng.choice(spaces)
        return text[:place] + text[place + 1 :]
    place = rng.randrange(1, len(text)) if len(text) > 1 else 0
    return text[:place] + " " + text[place:]


CHARACTER_ERRORS: Sequence[tuple[Callable[[random.Random, str], str], float]] = (
    (_insert, 0.15),
    (_delete, 0.2),
    (_replace, 0.25),
    (_misread, 0.1),
    (_transpose, 0.1),
    (_respell, 0.12),
    (_change_space, 0.08),
)
"""The errors, with their shares."""


def add_character_error(rng: random.Random, text: str) -> str:
    """Returns a text with one error of a character.

    Args:
        rng: Source of random numbers.
        text: The text. An empty one is returned unchanged.
    """
    if not text:
        return text
    errors = [error for error, _ in CHARACTER_ERRORS]
    shares = [share for _, share in CHARACTER_ERRORS]
    return rng.choices(errors, shares)[0](rng, text)


def add_character_errors(rng: random.Random, text: str, count: int) -> str:
    """Returns a text with some errors of characters.

    Args:
        rng: Source of random numbers.
        text: The text.
        count: Number of errors.
    """
    for _ in range(count):
        text = add_character_error(rng, text)
    return text
