"""References and titles of invented publications, as different authors write them."""

import random
from typing import NamedTuple

from benchmarks.quality.corruption import add_character_errors
from benchmarks.quality.labelled_set import LabelledRow
from benchmarks.quality.vocabulary import GIVEN_NAMES, SCIENCE, choose_frequent, invent_words

SURNAMES = invent_words(31, 300)
PATTERNS = (
    "{0} {1} for {2} {3}",
    "{0} {1} of {2} {3} in {4}",
    "on the {0} of {1} {2}",
    "an {0} approach to {1} {2}",
    "towards {0} {1} with {2} {3}",
    "{0}: a system for {1} {2}",
    "{0} {1} using {2} {3}",
    "a survey of {0} {1} and {2}",
    "{0} {1} over {2} {3}: theory and practice",
    "learning {0} {1} from {2} {3}",
)
VENUES = (
    (
        "Proceedings of the International Conference on Machine Learning",
        "ICML",
        "Proc. Int. Conf. on Mach. Learning",
    ),
    (
        "Proceedings of the ACM SIGMOD International Conference on Management of Data",
        "SIGMOD Conference",
        "Proc. ACM SIGMOD",
    ),
    (
        "International Conference on Very Large Data Bases",
        "VLDB",
        "Proc. of VLDB",
    ),
    (
        "Proceedings of the National Conference on Artificial Intelligence",
        "AAAI",
        "Proc. Nat. Conf. on AI",
    ),
    (
        "International Joint Conference on Artificial Intelligence",
        "IJCAI",
        "Proc. IJCAI",
    ),
    (
        "Machine Learning",
        "ML",
        "Mach. Learn.",
    ),
    (
        "Journal of Artificial Intelligence Research",
        "JAIR",
        "J. Artif. Intell. Res.",
    ),
    (
        "ACM Transactions on Database Systems",
        "TODS",
        "ACM Trans. Database Syst.",
    ),
    (
        "IEEE Transactions on Knowledge and Data Engineering",
        "TKDE",
        "IEEE Trans. Knowl. Data Eng.",
    ),
    (
        "Proceedings of the Symposium on Principles of Database Systems",
        "PODS",
        "Proc. Symp. on Princ. of Database Systems",
    ),
    (
        "Neural Information Processing Systems",
        "NIPS",
        "Adv. Neural Inf. Proc. Sys.",
    ),
    (
        "Proceedings of the Annual Workshop on Computational Learning Theory",
        "COLT",
        "Proc. Workshop on Comp. Learning Theory",
    ),
)
"""The long name, the acronym and the abbreviation of each venue."""
SMALL_WORDS = {"a", "an", "the", "of", "for", "on", "in", "with", "to", "and", "from"}


class Work(NamedTuple):
    """A publication."""

    authors: tuple[tuple[str, str], ...]
    title: str
    venue: tuple[str, str, str]
    year: int
    pages: tuple[int, int]


def invent_title(rng: random.Random) -> str:
    """Returns the title of a publication."""
    return rng.choice(PATTERNS).format(*rng.sample(SCIENCE, 5))


def invent_works(rng: random.Random, count: int) -> list[Work]:
    """Returns publications. Some have the authors and most of the title of another one.

    Args:
        rng: Source of random numbers.
        count: Number of publications.
    """
    works: list[Work] = []
    while len(works) < count:
        first = rng.randrange(1, 900)
        work = Work(
            authors=tuple(
                (rng.choice(GIVEN_NAMES), choose_frequent(rng, SURNAMES))
                for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))
            ),
            title=invent_title(rng),
            venue=rng.choice(VENUES),
            year=rng.randint(1986, 2004),
            pages=(first, first + rng.randint(5, 30)),
        )
        works.append(work)
        if rng.random() < 0.1:
            words = work.title.split(" ")
            words[rng.randrange(len(words))] = rng.choice(SCIENCE)
            works.append(
                work._replace(
                    title=" ".join(words),
                    venue=rng.choice(VENUES),
                    year=work.year + 1,
                    pages=(1, 12),
                )
            )
    return works[:count]


def write_authors(rng: random.Random, authors: tuple[tuple[str, str], ...]) -> str:
    """Returns the names of the authors in one of the usual forms, sometimes in another order."""
    listed = list(authors)
    if rng.random() < 0.1:
        rng.shuffle(listed)
    if len(listed) > 2 and rng.random() < 0.15:
        return f"{listed[0][0][0].upper()}. {listed[0][1].title()} et al."
    form = rng.choice(("initial", "initial", "last first", "full"))
    names = []
    for given, surname in listed:
        if form == "initial":
            names.append(f"{given[0].upper()}. {surname.title()}")
        elif form == "last first":
            names.append(f"{surname.title()}, {given[0].upper()}.")
        else:
            names.append(f"{given.title()} {surname.title()}")
    return (
        rng.choice((", ", ", ", "; ")).join(names[:-1])
        + (rng.choice((" and ", ", ", " & ")) if len(names) > 1 else "")
        + names[-1]
    )


def write_reference(rng: random.Random, work: Work) -> dict[str, str | None]:
    """Returns a reference as it stands in a list of references, with errors and missing parts."""
    title = work.title
    if rng.random() < 0.3:
        title = add_character_errors(rng, title, rng.randint(1, 2))
    if rng.random() < 0.1:
        title = " ".join(title.split(" ")[: rng.randint(4, 8)])
    title = rng.choice((str.title, str.capitalize, str.lower))(title)
    venue = rng.choice(work.venue)
    pages = f"{work.pages[0]}{rng.choice(('-', '--', ' - '))}{work.pages[1]}"
    return {
        "authors": write_authors(rng, work.authors) if rng.random() < 0.97 else None,
        "title": title,
        "venue": rng.choice(("In ", "", "")) + venue if rng.random() < 0.85 else None,
        "year": rng.choice(("{}", "({})", "{}.")).format(work.year + rng.choice((0,) * 9 + (1,)))
        if rng.random() < 0.8
        else None,
        "pages": rng.choice(("pp. ", "pages ", "")) + pages if rng.random() < 0.5 else None,
    }


def make_references(works: int, seed: int) -> list[LabelledRow]:
    """Returns references to publications, some of which are cited often.

    Args:
        works: Number of publications.
        seed: Seed of the references.
    """
    rng = random.Random(seed)
    rows = []
    for number, work in enumerate(invent_works(rng, works)):
        citations = min(int(rng.paretovariate(0.9)), 30)
        rows += [LabelledRow(str(number), write_reference(rng, work)) for _ in range(citations)]
    return rows


def make_libraries(works: int, seed: int) -> list[LabelledRow]:
    """Returns publications of two libraries. Two thirds of them are in both.

    One library writes full names and acronyms of venues. The other one writes initials and the
    names of venues in full, and lacks some fields.

    Args:
        works: Number of publications.
        seed: Seed of the records.
    """
    rng = random.Random(seed)
    rows = []
    for number, work in enumerate(invent_works(rng, works)):
        place = rng.random()
        if place < 0.84:
            fields: dict[str, str | None] = {
                "title": work.title.title(),
                "authors": ", ".join(f"{a.title()} {b.title()}" for a, b in work.authors),
                "venue": work.venue[1],
                "year": str(work.year),
            }
            rows.append(LabelledRow(str(number), fields, "first"))
        if place > 0.16:
            title = work.title
            if rng.random() < 0.2:
                title = add_character_errors(rng, title, 1)
            fields = {
                "title": title.capitalize(),
                "authors": ", ".join(f"{a[0].upper()}. {b.title()}" for a, b in work.authors)
                if rng.random() < 0.95
                else None,
                "venue": work.venue[0] if rng.random() < 0.8 else None,
                "year": str(work.year) if rng.random() < 0.9 else None,
            }
            rows.append(LabelledRow(str(number), fields, "second"))
    return rows


def write_title(rng: random.Random, title: str) -> str:
    """Returns a title as another catalogue would write it."""
    words = title.split(" ")
    if rng.random() < 0.3:
        words = [word for word in words if word not in SMALL_WORDS] or words
    if ":" in title and rng.random() < 0.4:
        words = title.split(":")[0 if rng.random() < 0.3 else 1].split()
    if rng.random() < 0.25 and len(words) > 5:
        words[-1] = "..."
    written = " ".join(words)
    if rng.random() < 0.4:
        written = add_character_errors(rng, written, rng.randint(1, 2))
    if rng.random() < 0.2:
        written = written.replace(" and ", " & ")
    return rng.choice((str.title, str.capitalize, str.lower, str.upper))(written)


def make_titles(works: int, seed: int) -> list[LabelledRow]:
    """Returns titles of publications and variants of them.

    Args:
        works: Number of publications.
        seed: Seed of the titles.
    """
    rng = random.Random(seed)
    rows = []
    for number, work in enumerate(invent_works(rng, works)):
        variants = rng.choice((0, 0, 1, 1, 2, 3))
        titles = [work.title, *(write_title(rng, work.title) for _ in range(variants))]
        rows += [LabelledRow(str(number), {"text": title}) for title in titles]
    return rows


PLACES = invent_words(41, 120, ("ton", "ford", "burg", "haven", "field"))
TEAMS = ("council", "museum", "hospital", "airport", "university", "police", "orchestra", "port")
HEADLINES = (
    "{place} {team} votes to {deed} the {thing} after {n} years",
    "{team} of {place} will {deed} {thing} in {month}",
    "{n} people hurt as {thing} closes in {place}",
    "why {place} wants to {deed} its {thing}",
    "{place}: {team} and residents argue about plan to {deed} {thing}",
    "{team} in {place} reports record number of visitors at {thing}",
    "storm damages {thing} near {place}, {team} says",
)
DEEDS = ("rebuild", "sell", "close", "open", "paint", "replace", "extend", "protect", "move")
THINGS = (
    "old bridge", "town library", "football stadium", "railway station", "botanical garden",
    "power plant", "swimming pool", "market hall", "ferry terminal", "grammar school", "tram line",
    "concert hall", "harbour wall", "water tower", "bus depot",
)  # fmt: skip
MONTHS = ("january", "march", "may", "july", "september", "november")
PAPERS = ("Daily Courier", "The Northern Post", "Evening Herald", "Region 24")
OTHER_WORDS = {
    "votes to": "decides to", "will": "is going to", "hurt": "injured", "wants": "plans",
    "argue": "disagree", "reports": "announces", "damages": "hits", "says": "reports",
    "years": "yrs", "people": "persons", "old": "historic", "town": "city",
}  # fmt: skip


def make_headlines(stories: int, seed: int) -> list[LabelledRow]:
    """Returns headlines and the forms in which other papers print them.

    Args:
        stories: Number of stories.
        seed: Seed of the headlines.
    """
    rng = random.Random(seed)
    rows = []
    for number in range(stories):
        headline = rng.choice(HEADLINES).format(
            place=rng.choice(PLACES),
            team=rng.choice(TEAMS),
            deed=rng.choice(DEEDS),
            thing=rng.choice(THINGS),
            n=rng.randint(2, 90),
            month=rng.choice(MONTHS),
        )
        rows.append(LabelledRow(str(number), {"text": headline.capitalize()}))
        for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
            copy = headline
            for word, other in OTHER_WORDS.items():
                if rng.random() < 0.4:
                    copy = copy.replace(word, other, 1)
            copy = rng.choice((str.title, str.capitalize, str.upper))(copy)
            if rng.random() < 0.4:
                copy += f" {rng.choice(('-', '|'))} {rng.choice(PAPERS)}"
            elif rng.random() < 0.3:
                copy = f"{rng.choice(('BREAKING', 'Update', 'Video'))}: {copy}"
            if rng.random() < 0.15:
                copy = copy[: int(len(copy) * 0.8)] + "…"
            rows.append(LabelledRow(str(number), {"text": copy}))
    return rows
