"""Words and sentences of English prose without a meaning.

The words are frequent ones, typed in from common knowledge and drawn by Zipf's law.
"""

import random

from benchmarks.quality.populations.names import CITIES, GIVEN_NAMES, SURNAMES
from benchmarks.quality.populations.words import choose_by_rank, read_words

NOUNS = read_words("nouns")
VERBS = read_words("verbs")
ADJECTIVES = read_words("adjectives")
LINKS = (
    "because", "although", "while", "after", "before", "when", "so that", "and", "but", "until",
)  # fmt: skip
OPENINGS = (
    "", "", "", "On {day}, ", "In {city}, ", "According to {name}, ", "Since {year}, ",
    "For the first time, ", "Meanwhile, ", "At the end of {year}, ", "As {name} writes, ",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SUBJECTS = read_words("institutions")
DEEDS = read_words("deeds")
THINGS = read_words("things")
INSTITUTIONS = (*SUBJECTS, *THINGS)


def _invent_noun_phrase(rng: random.Random) -> str:
    """Returns a noun with an article and perhaps an adjective, or a name or an institution."""
    choice = rng.random()
    if choice < 0.15:
        return f"{choose_by_rank(rng, GIVEN_NAMES)} {choose_by_rank(rng, SURNAMES)}"
    if choice < 0.25:
        return f"the {rng.choice(INSTITUTIONS)} of {choose_by_rank(rng, CITIES)[0]}"
    words = [rng.choice(("the", "the", "a", "this", "every", "one")), choose_by_rank(rng, NOUNS)]
    if rng.random() < 0.5:
        words.insert(1, choose_by_rank(rng, ADJECTIVES))
    return " ".join(words)


def invent_clause(rng: random.Random) -> str:
    """Returns a subject, a verb and an object, and perhaps a place, a time or an amount."""
    verb = choose_by_rank(rng, VERBS) if rng.random() < 0.8 else f"wants to {rng.choice(DEEDS)}"
    clause = f"{_invent_noun_phrase(rng)} {verb} {_invent_noun_phrase(rng)}"
    if rng.random() < 0.4:
        clause += rng.choice((" in ", " of ", " with ", " for ", " near ", " without "))
        clause += _invent_noun_phrase(rng)
    if rng.random() < 0.2:
        clause += f" for {rng.randint(2, 900)} {choose_by_rank(rng, NOUNS)}s"
    return clause


def invent_sentence(rng: random.Random) -> str:
    """Returns a sentence of one or two clauses."""
    opening = rng.choice(OPENINGS).format(
        day=rng.choice(DAYS),
        city=choose_by_rank(rng, CITIES)[0],
        year=rng.randint(1950, 2025),
        name=f"{choose_by_rank(rng, GIVEN_NAMES)} {choose_by_rank(rng, SURNAMES)}",
    )
    sentence = opening + invent_clause(rng)
    if rng.random() < 0.5:
        sentence += f" {rng.choice(LINKS)} {invent_clause(rng)}"
    return f"{sentence[0].upper()}{sentence[1:]}."
