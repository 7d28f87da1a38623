"""Small corpora of several kinds whose true clusters are known."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

SYLLABLES = [a + b for a in "bcdfghjklmnprstvw" for b in ("a", "e", "i", "o", "u", "ar", "en")]


class LabelledCorpus(NamedTuple):
    """Texts by id, and the name of the true cluster of each."""

    texts: dict[str, str]
    clusters: dict[str, str]

    @property
    def table(self) -> dict[str, list[str]]:
        return {"id": list(self.texts), "text": list(self.texts.values())}


def make_word(random_source: random.Random) -> str:
    return "".join(random_source.choice(SYLLABLES) for _ in range(random_source.randint(2, 3)))


def misspell(text: str, random_source: random.Random) -> str:
    """Returns a text with one letter replaced, left out or doubled."""
    place = random_source.randrange(len(text))
    letter = random_source.choice(["", random_source.choice("aeiourst"), text[place] * 2])
    return text[:place] + letter + text[place + 1 :]


def make_corpus(
    write: Callable[[random.Random], str],
    copy: Callable[[str, random.Random], str],
    sizes: Sequence[int],
    seed: int,
) -> LabelledCorpus:
    """Returns a corpus with clusters of some sizes, in random order."""
    random_source = random.Random(seed)
    rows = []
    for cluster, size in enumerate(sizes):
        original = write(random_source)
        texts = [original, *(copy(original, random_source) for _ in range(size - 1))]
        rows += [(f"{cluster}-{number}", text, str(cluster)) for number, text in enumerate(texts)]
    random_source.shuffle(rows)
    return LabelledCorpus(
        {id: text for id, text, _ in rows}, {id: cluster for id, _, cluster in rows}
    )


def records(sizes: Sequence[int], seed: int = 1) -> LabelledCorpus:
    """Returns records of people with typing errors."""
    towns = ["leeds", "york", "bath", "derby", "truro"]

    def write(source: random.Random) -> str:
        number = source.randint(1, 300)
        return (
            f"{make_word(source)} {make_word(source)} {number} {make_word(source)} street "
            f"{source.choice(towns)} {source.randint(1930, 2005)}{source.randint(1000, 9999)}"
        )

    def copy(text: str, source: random.Random) -> str:
        for _ in range(source.randint(1, 3)):
            text = misspell(text, source)
        return text

    return make_corpus(write, copy, sizes, seed)


def confusable_records(sizes: Sequence[int], seed: int) -> LabelledCorpus:
    """Returns records of which half share all but a name and a year with a distinct one.

    Copies have up to eight typing errors, so that no threshold separates them from relatives.
    """
    relatives: list[str] = []

    def write(source: random.Random) -> str:
        words = relatives[-1].split() if relatives and source.random() < 0.5 else []
        if words:
            words[0] = make_word(source)
            words[-1] = str(source.randint(1930, 2005))
        else:
            names = [make_word(source) for _ in range(3)]
            town = source.choice(["leeds", "york", "bath"])
            words = [*names, str(source.randint(1, 300)), town, str(source.randint(1930, 2005))]
        relatives.append(" ".join(words))
        return relatives[-1]

    def copy(text: str, source: random.Random) -> str:
        for _ in range(source.choice([1, 2, 4, 8])):
            text = misspell(text, source)
        return text

    return make_corpus(write, copy, sizes, seed)


def bibliography(sizes: Sequence[int], seed: int = 2) -> LabelledCorpus:
    """Returns references whose authors, journals and years are written in different ways."""
    journals = [("journal of data", "j data"), ("annals of statistics", "ann stat")]

    def write(source: random.Random) -> str:
        authors = f"{make_word(source)} {make_word(source)}"
        title = " ".join(make_word(source) for _ in range(6))
        return f"{authors}. {title}. {source.choice(journals)[0]}, {source.randint(1980, 2020)}"

    def copy(text: str, source: random.Random) -> str:
        authors, title, journal = text.split(". ")
        first, last = authors.split()
        if source.random() < 0.7:
            authors = f"{first[0]} {last}"
        for long, short in journals:
            if source.random() < 0.6:
                journal = journal.replace(long, short)
        parts = [authors, title, journal]
        if source.random() < 0.3:
            parts = [title, authors, journal]
        return ", ".join(parts)

    return make_corpus(write, copy, sizes, seed)


def templates(sizes: Sequence[int], seed: int = 3) -> LabelledCorpus:
    """Returns lines of logs, which differ in their numbers."""

    def write(source: random.Random) -> str:
        words = [make_word(source) for _ in range(4)]
        return f"{words[0]} {source.randint(10**6, 10**8)} {words[1]} {words[2]} for {words[3]}"

    def copy(text: str, source: random.Random) -> str:
        number = source.randint(10**6, 10**8)
        return " ".join(str(number) if word.isdigit() else word for word in text.split())

    return make_corpus(write, copy, sizes, seed)


def copies(sizes: Sequence[int], seed: int = 4) -> LabelledCorpus:
    """Returns longer texts of which some words are replaced."""

    def write(source: random.Random) -> str:
        return " ".join(make_word(source) for _ in range(60))

    def copy(text: str, source: random.Random) -> str:
        words = text.split()
        for place in source.sample(range(len(words)), 4):
            words[place] = make_word(source)
        return " ".join(words)

    return make_corpus(write, copy, sizes, seed)


def shingle_set(text: str, unit: str, n: int) -> frozenset[str]:
    """Returns the shingles of a text, in plain Python."""
    units: Sequence[str] = "".join(c if c.isalnum() else " " for c in text.lower()).split()
    if unit == "chars":
        units = " ".join(text.lower().split())
    joined = (" " if unit == "words" else "").join
    return frozenset(joined(units[i : i + n]) for i in range(max(1, len(units) - n + 1)))


def best_exhaustive_f1(corpus: LabelledCorpus) -> float:
    """Returns the best pairwise F1 of leaders over shingles and thresholds, in plain Python."""
    ids = sorted(corpus.texts, key=lambda id: (-len(corpus.texts[id].encode()), id))
    names = np.array([corpus.clusters[id] for id in ids])
    is_true = np.triu(names[:, None] == names[None, :], 1)
    best = 0.0
    for unit, lengths in (("words", range(1, 4)), ("chars", range(2, 6))):
        for n in lengths:
            sets = [shingle_set(corpus.texts[id], unit, n) for id in ids]
            similarity = np.eye(len(sets))
            for a, b in itertools.combinations(range(len(sets)), 2):
                shared = len(sets[a] & sets[b])
                similarity[a, b] = shared / (len(sets[a]) + len(sets[b]) - shared)
                similarity[b, a] = similarity[a, b]
            for threshold in np.arange(0.05, 1.0, 0.025):
                leader = elect(similarity, float(threshold))
                is_found = np.triu(leader[:, None] == leader[None, :], 1)
                together = int((is_found & is_true).sum())
                best = max(best, 2 * together / (int(is_found.sum()) + int(is_true.sum())))
    return best


def elect(similarity: np.ndarray, threshold: float) -> np.ndarray:
    """Returns the leader of each document, in plain Python. Documents are in keep order."""
    kept: list[int] = []
    leader = []
    for document in range(len(similarity)):
        near = [one for one in kept if similarity[document, one] >= threshold]
        if near:
            leader.append(max(near, key=lambda one: (similarity[document, one], -one)))
        else:
            kept.append(document)
            leader.append(document)
    return np.array(leader)


def make_words(source: random.Random, count: int) -> str:
    return " ".join(make_word(source) for _ in range(count))


def extended_texts(families: int) -> LabelledCorpus:
    """Returns texts and longer ones that contain them. Three longer ones share most of theirs."""
    source = random.Random(5)
    texts: dict[str, str] = {}
    clusters: dict[str, str] = {}
    for family in range(families):
        shared = make_words(source, 60)
        for member in range(3):
            base = make_words(source, 20)
            cluster = f"{family}-{member}"
            texts[f"{cluster}-base"] = base
            texts[f"{cluster}-long"] = f"{base} {shared} {make_words(source, 5)}"
            clusters |= {f"{cluster}-base": cluster, f"{cluster}-long": cluster}
    return LabelledCorpus(texts, clusters)


def filled_forms(families: int) -> LabelledCorpus:
    """Returns forms and copies with typing errors, and forms with one other number."""
    source = random.Random(6)
    texts: dict[str, str] = {}
    clusters: dict[str, str] = {}
    for family in range(families):
        words = make_words(source, 12)
        number = source.randrange(10_000, 99_990)
        for member, filled in enumerate((number, number, number + 1, number + 1)):
            text = words
            for _ in range(4 * (member % 2)):
                text = misspell(text, source)
            texts[f"{family}-{member}"] = f"{text} {filled}"
            clusters[f"{family}-{member}"] = f"{family}-{filled}"
    return LabelledCorpus(texts, clusters)
