"""Longer texts: press releases and pages around them, and planted plagiarism."""

import random
import re
from collections.abc import Callable, Sequence
from pydoc_data.topics import topics

from benchmarks.quality.labelled_set import LabelledRow
from benchmarks.quality.vocabulary import invent_words
from scripts.make_demo_corpus import write_corpus

SITES = 8
SITE_NAMES = invent_words(61, SITES, ("news", "press", "portal"))
NAVIGATION = (
    "Home", "Politics", "Business", "Sport", "Culture", "Weather", "Video", "Podcasts", "Jobs",
    "Subscribe", "Sign in", "Contact", "Imprint", "Privacy", "Help", "Archive", "Newsletter",
)  # fmt: skip
COOKIES = (
    "We use cookies to personalise content and ads, to provide social media features and to "
    "analyse our traffic. Accept all. Reject all. Manage settings.",
    "This site stores information on your device. By continuing you agree to our terms of use.",
    "Your privacy matters to us and to our 742 partners. Choose which purposes you accept.",
)


def make_releases(releases: int, seed: int) -> list[LabelledRow]:
    """Returns press releases and the copies of wire services and papers.

    Args:
        releases: Number of press releases.
        seed: Seed of the releases.
    """
    return [
        LabelledRow(str(document["release"]), {"text": str(document["text"])})
        for document in write_corpus(random.Random(seed), releases)
    ]


def make_pages(releases: int, seed: int) -> list[LabelledRow]:
    """Returns press releases inside the navigation, banners and footers of web sites.

    Args:
        releases: Number of press releases.
        seed: Seed of the pages.
    """
    rng = random.Random(seed)
    frames = [
        (
            f"{name.title()} {' '.join(rng.sample(NAVIGATION, 10))} {rng.choice(COOKIES)}",
            f"Share this article. More from {name.title()}: {' '.join(rng.sample(NAVIGATION, 6))}. "
            f"© {name.title()} Media. All rights reserved. Most read today:",
        )
        for name in SITE_NAMES
    ]
    documents = write_corpus(random.Random(seed), releases)
    heads = [str(document["text"]).split("\n")[0] for document in documents]
    rows = []
    for document in documents:
        head, foot = rng.choice(frames)
        teasers = " ".join(rng.sample(heads, 3))
        text = f"{head}\n\n{document['text']}\n\n{foot} {teasers}"
        rows.append(LabelledRow(str(document["release"]), {"text": text}))
    return rows


SENTENCE_END = re.compile(r"(?<=[.!?]) +")
PASSAGE_WORDS = (35, 200)
"""Smallest and largest number of words of a passage."""
LEVELS = ("verbatim", "light", "heavy", "paraphrase")
SUBSTITUTES = invent_words(62, 2000, ("ing", "ed", "ly", "s", ""))


def find_passages() -> list[str]:
    """Returns paragraphs of prose from the help texts of Python, which every machine has."""
    passages: dict[str, None] = {}
    for name in sorted(topics):
        for paragraph in topics[name].split("\n\n"):
            words = paragraph.split()
            is_prose = sum(word.isalpha() for word in words) > 0.6 * len(words)
            if is_prose and PASSAGE_WORDS[0] <= len(words) <= PASSAGE_WORDS[1]:
                passages[" ".join(words)] = None
    return list(passages)


def replace_words(rng: random.Random, words: Sequence[str], share: float) -> list[str]:
    """Returns words, some of which are replaced by others.

    Args:
        rng: Source of random numbers.
        words: The words.
        share: Probability that a word is replaced.
    """
    return [rng.choice(SUBSTITUTES) if rng.random() < share else word for word in words]


def _copy_verbatim(rng: random.Random, text: str) -> str:
    return text


def _edit_lightly(rng: random.Random, text: str) -> str:
    words = replace_words(rng, text.split(), 0.06)
    return " ".join(word for word in words if rng.random() > 0.02)


def _edit_heavily(rng: random.Random, text: str) -> str:
    sentences = SENTENCE_END.split(text)
    rng.shuffle(sentences)
    words = replace_words(rng, " ".join(sentences).split(), 0.2)
    return " ".join(word for word in words if rng.random() > 0.08)


def _paraphrase(rng: random.Random, text: str) -> str:
    """Replaces a third of the words and moves every word by up to four places."""
    words = replace_words(rng, text.split(), 0.35)
    places = [place + rng.uniform(0, 4) for place in range(len(words))]
    return " ".join(word for _, word in sorted(zip(places, words, strict=True)))


EDITS: Sequence[Callable[[random.Random, str], str]] = (
    _copy_verbatim,
    _edit_lightly,
    _edit_heavily,
    _paraphrase,
)
"""The edit of each level."""


def make_plagiarism(passages: int, seed: int) -> list[LabelledRow]:
    """Returns passages, half of which were copied at up to four levels.

    Args:
        passages: Largest number of passages.
        seed: Seed of the copies.
    """
    rng = random.Random(seed)
    texts = find_passages()
    rng.shuffle(texts)
    rows = []
    for number, text in enumerate(texts[:passages]):
        rows.append(LabelledRow(str(number), {"text": text}, variant="original"))
        if number % 2:
            for level, edit in rng.sample(list(zip(LEVELS, EDITS, strict=True)), rng.randint(1, 4)):
                rows.append(LabelledRow(str(number), {"text": edit(rng, text)}, variant=level))
    return rows
