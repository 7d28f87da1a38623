"""Articles and web pages: free prose, families of pages from one template, and changed copies."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.quality.corruption import add_character_error
from benchmarks.quality.populations.names import CITIES, GIVEN_NAMES, SURNAMES
from benchmarks.quality.populations.planting import Fields
from benchmarks.quality.populations.sentences import DAYS, NOUNS, invent_sentence
from benchmarks.quality.populations.words import choose_by_rank

TEMPLATE_SHARE = 0.3
"""The share of the pages that are made from a template."""
ARTICLE_TEMPLATE_SHARE = 0.05
"""The share of the articles that are: reports of the weather, of markets and of matches."""
NEW_TEMPLATE_SHARE = 0.1
"""The share of these for which a new template is made. The others use that of an earlier page, so
that a template has ten pages on average, and a few templates have most."""
SENTENCES = (8, 25)
"""Smallest and largest number of sentences of a text."""
FIXED_SENTENCES = (0.3, 0.9)
"""Smallest and largest share of the sentences that the pages of a template have in common."""
MOST_EDITED = 0.3
"""The largest share of the sentences of an article that another paper edits."""
SHORTENED_SHARE = 0.4
"""The share of the copied articles that are cut to 50 to 90 %."""
QUOTED_SHARE = 0.2
"""The share of the copied articles that get sentences of their own, up to a third as many."""
OTHER_SITE_SHARE = 0.3
"""The share of the copied pages that appear on another site."""
SITES = tuple(f"{name} {kind}" for name, _, _ in CITIES[:40] for kind in ("Courier", "Portal"))
NAVIGATION = (
    "Home", "Politics", "Business", "Sport", "Culture", "Weather", "Video", "Podcasts", "Jobs",
    "Subscribe", "Sign in", "Contact", "Imprint", "Privacy", "Help", "Archive", "Newsletter",
)  # fmt: skip


def _invent_facts(rng: random.Random) -> str:
    """Returns a sentence with the facts in which the pages of a template differ."""
    return (
        f"{choose_by_rank(rng, GIVEN_NAMES)} {choose_by_rank(rng, SURNAMES)}, "
        f"{choose_by_rank(rng, CITIES)[0]}: {rng.randint(1, 9999)} {choose_by_rank(rng, NOUNS)}, "
        f"{rng.randint(1, 28)} {rng.choice(DAYS)} {rng.randint(1990, 2025)}."
    )


class Text(NamedTuple):
    """A text: its sentences, and the web site on which it appears."""

    sentences: Sequence[str]
    site: str


class Template(NamedTuple):
    """The sentences of a family of pages. None stands for one that each page has for itself."""

    sentences: Sequence[str | None]
    site: str

    @classmethod
    def invent(cls, rng: random.Random) -> "Template":
        """Returns a template of which 30 to 90 % of the sentences are fixed."""
        fixed = rng.uniform(*FIXED_SENTENCES)
        count = rng.randint(*SENTENCES)
        sentences = [invent_sentence(rng) if rng.random() < fixed else None for _ in range(count)]
        return cls(sentences, choose_by_rank(rng, SITES))

    def fill(self, rng: random.Random) -> Text:
        """Returns the text of a page. Its first sentence holds the facts of the page."""
        own = [
            rng.choice((invent_sentence, _invent_facts))(rng) if sentence is None else sentence
            for sentence in self.sentences
        ]
        return Text([_invent_facts(rng), *own], self.site)


def invent_texts(rng: random.Random, template_share: float = TEMPLATE_SHARE) -> Iterator[Text]:
    """Yields texts without end.

    Args:
        rng: Source of random numbers.
        template_share: Share of the texts that are made from a template.
    """
    used: list[Template] = []
    while True:
        if rng.random() >= template_share:
            sentences = [invent_sentence(rng) for _ in range(rng.randint(*SENTENCES))]
            yield Text(sentences, choose_by_rank(rng, SITES))
            continue
        is_new = not used or rng.random() < NEW_TEMPLATE_SHARE
        used.append(Template.invent(rng) if is_new else rng.choice(used))
        yield used[-1].fill(rng)


def invent_articles(rng: random.Random) -> Iterator[Text]:
    """Yields the texts of articles without end."""
    return invent_texts(rng, ARTICLE_TEMPLATE_SHARE)


def _edit_sentence(rng: random.Random, sentence: str) -> str:
    """Returns a sentence with a replaced word, a typing error, or another ending."""
    words = sentence.split(" ")
    choice = rng.random()
    if choice < 0.5:
        words[rng.randrange(len(words))] = choose_by_rank(rng, NOUNS)
    elif choice < 0.7:
        return add_character_error(rng, sentence)
    else:
        words = [
            *words[: rng.randint(len(words) // 2, len(words))],
            "and",
            choose_by_rank(rng, NOUNS),
        ]
    return " ".join(words)


def _write_paragraphs(sentences: Sequence[str]) -> str:
    """Returns a text with a paragraph for every three sentences."""
    paragraphs = [" ".join(sentences[place : place + 3]) for place in range(0, len(sentences), 3)]
    return "\n\n".join(paragraphs)


def write_article(rng: random.Random, text: Text) -> Fields:
    """Returns the article of a text, without the site."""
    return {"text": _write_paragraphs(text.sentences)}


def copy_article(rng: random.Random, text: Text) -> Fields:
    """Returns an article as another paper prints it: revised, shortened or quoted at length."""
    share = rng.uniform(0, MOST_EDITED)
    copied = [
        _edit_sentence(rng, sentence) if rng.random() < share else sentence
        for sentence in text.sentences
    ]
    choice = rng.random()
    if choice < SHORTENED_SHARE:
        copied = copied[: max(3, int(len(copied) * rng.uniform(0.5, 0.9)))]
    elif choice < SHORTENED_SHARE + QUOTED_SHARE:
        own = [invent_sentence(rng) for _ in range(rng.randint(1, max(2, len(copied) // 3)))]
        copied = [own[0], *copied, *own[1:]]
    return {"text": _write_paragraphs(copied)}


def write_page(rng: random.Random, text: Text) -> Fields:
    """Returns a text inside the navigation and the footer of its site, with a counter of views."""
    frame = random.Random(text.site)
    head = f"{text.site} {' '.join(frame.sample(NAVIGATION, 8))}"
    foot = f"© {text.site}. All rights reserved. {' '.join(frame.sample(NAVIGATION, 5))}"
    views = f"{rng.randint(10, 99_999)} views, {rng.randint(1, 28)} {rng.choice(DAYS)}"
    return {"text": f"{head}\n\n{_write_paragraphs(text.sentences)}\n\n{views}\n{foot}"}


def copy_page(rng: random.Random, text: Text) -> Fields:
    """Returns a page that was crawled again, on the same or another site, perhaps with edits."""
    copied = list(text.sentences)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        place = rng.randrange(len(copied))
        copied[place] = _edit_sentence(rng, copied[place])
    site = choose_by_rank(rng, SITES) if rng.random() < OTHER_SITE_SHARE else text.site
    return write_page(rng, Text(copied, site))
