"""References to publications, as different authors write them. Copies have another style."""

import random
from collections.abc import Iterator

from benchmarks.quality.bibliography import VENUES, Work
from benchmarks.quality.populations.names import GIVEN_NAMES, SURNAMES
from benchmarks.quality.populations.titles import invent_distinct_titles
from benchmarks.quality.populations.words import choose_by_rank


def invent_works(rng: random.Random) -> Iterator[Work]:
    """Yields publications without end. Members of a series have the same authors."""
    authors: tuple[tuple[str, str], ...] = ()
    for title, is_continued in invent_distinct_titles(rng):
        if not is_continued:
            authors = tuple(
                (choose_by_rank(rng, GIVEN_NAMES).lower(), choose_by_rank(rng, SURNAMES).lower())
                for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))
            )
        first = rng.randrange(1, 900)
        yield Work(
            authors=authors,
            title=title,
            venue=rng.choice(VENUES),
            year=rng.randint(1986, 2024),
            pages=(first, first + rng.randint(5, 30)),
        )
