"""Titles of publications and headlines, with series and changed copies."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.quality.bibliography import PATTERNS, SMALL_WORDS
from benchmarks.quality.populations.names import CITIES, GIVEN_NAMES, SURNAMES
from benchmarks.quality.populations.planting import Fields, add_typo, apply_changes, change_case
from benchmarks.quality.populations.sentences import (
    DEEDS,
    NOUNS,
    SUBJECTS,
    THINGS,
    invent_clause,
)
from benchmarks.quality.populations.words import choose_by_rank
from benchmarks.quality.vocabulary import SCIENCE

SERIES_SHARE = 0.05
"""The share of the publications that belong to the series of the previous one."""
TITLE_WORDS = (*SCIENCE, *(noun for noun in NOUNS if len(noun) > 4))
SERIES = ("part {}", "volume {}", "{} edition", "lecture notes {}", "annual report {}")
"""How the members of a series are distinguished."""


def invent_title(rng: random.Random) -> str:
    """Returns the title of a publication, of which a third have a second part."""
    words = [choose_by_rank(rng, TITLE_WORDS) for _ in range(5)]
    title = rng.choice(PATTERNS).format(*words)
    if ":" not in title and rng.random() < 0.33:
        title += f": {choose_by_rank(rng, TITLE_WORDS)} and {choose_by_rank(rng, TITLE_WORDS)}"
    return title


def _continue_series(rng: random.Random, title: str, number: int) -> str:
    """Returns the title of another member of a series: another number, or one word replaced."""
    if rng.random() < 0.5:
        return f"{title}, {rng.choice(SERIES).format(number)}"
    words = title.split(" ")
    places = [place for place, word in enumerate(words) if word not in SMALL_WORDS]
    words[rng.choice(places)] = choose_by_rank(rng, TITLE_WORDS)
    return " ".join(words)


class SeriesTitle(NamedTuple):
    """A title, and whether it continues the series of the previous one."""

    title: str
    is_continued: bool


def invent_distinct_titles(rng: random.Random) -> Iterator[SeriesTitle]:
    """Yields titles without end. One in twenty continues the series of the previous one."""
    first = ""
    seen: set[str] = set()
    number = 1
    while True:
        is_continued = bool(first) and rng.random() < SERIES_SHARE
        if is_continued:
            number += 1
            title = _continue_series(rng, first, number)
        else:
            number = 1
            first = title = invent_title(rng)
        if title not in seen:
            seen.add(title)
            yield SeriesTitle(title, is_continued)


def invent_titles(rng: random.Random) -> Iterator[Fields]:
    """Yields the titles of publications without end."""
    for title, _ in invent_distinct_titles(rng):
        yield {"text": title}


def _drop_small_words(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Leaves out articles and prepositions, or writes an ampersand."""
    text = str(fields["text"])
    if rng.random() < 0.5:
        fields["text"] = text.replace(" and ", " & ")
    else:
        words = [word for word in text.split(" ") if word.lower() not in SMALL_WORDS]
        fields["text"] = " ".join(words or [text])


def _truncate(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Cuts off the end of a text, after at least two thirds."""
    text = str(fields["text"])
    fields["text"] = f"{text[: int(len(text) * rng.uniform(0.67, 0.95))]}..."


def _add_word(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Adds what a catalogue or a portal adds to a title."""
    before = ("", "", "[pdf] ", "Update: ")
    after = (" (extended abstract)", " (revised)", " | News", " - online")
    fields["text"] = f"{rng.choice(before)}{fields['text']}{rng.choice(after)}"


TITLE_CHANGES = {
    add_typo: 0.45,
    change_case: 0.15,
    _drop_small_words: 0.15,
    _truncate: 0.1,
    _add_word: 0.15,
}
"""The changes of copied titles, with their shares."""


def copy_title(rng: random.Random, fields: Fields) -> Fields:
    """Returns a changed copy of a title or a headline."""
    return apply_changes(rng, fields, TITLE_CHANGES)


HEADLINES = (
    "{place} {subject} votes to {deed} the {thing} after {n} years",
    "{subject} of {place} will {deed} {thing} in {month}",
    "{n} people hurt as {thing} closes in {place}",
    "why {name} wants to {deed} the {thing} in {place}",
    "{place}: {subject} and residents argue about plan to {deed} {thing}",
    "{subject} in {place} reports record number of visitors at {thing}",
    "storm damages {thing} near {place}, {subject} says",
    "{name}: '{place} must {deed} its {thing} before {month}'",
    "{n} million for the {thing}: {place} {subject} under pressure",
    "how the {subject} of {place} came to {deed} a {thing}",
)
FORM_SHARE = 0.1
"""The share of the headlines that have one of these forms. The others are clauses."""
MONTHS = ("january", "march", "may", "july", "september", "november")


def invent_headlines(rng: random.Random) -> Iterator[Fields]:
    """Yields distinct headlines without end. A tenth have one of ten forms."""
    seen: set[str] = set()
    while True:
        form = (
            rng.choice(HEADLINES)
            if rng.random() < FORM_SHARE
            else f"{{place}}: {invent_clause(rng)}"
        )
        headline = form.format(
            place=choose_by_rank(rng, CITIES)[0],
            subject=rng.choice(SUBJECTS),
            deed=rng.choice(DEEDS),
            thing=rng.choice(THINGS),
            n=rng.randint(2, 90),
            month=rng.choice(MONTHS),
            name=f"{choose_by_rank(rng, GIVEN_NAMES)} {choose_by_rank(rng, SURNAMES)}",
        )
        if headline not in seen:
            seen.add(headline)
            yield {"text": headline.capitalize()}
