"""Generated corpora in which a removed document may say something that no other one says.

In `forms`, the documents of a family differ in nothing but the numbers that were filled in. In
`additions`, they have a base text in common, and some add to it. In `changes`, there are two texts
of 60 to 2,000 words, and one of them has a change of a known kind. The truth says for each document
which others say all of it, so that a removal is known to lose something or nothing.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, cycle, islice, product
from pathlib import Path
from typing import NamedTuple, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.errors import UsageError
from nearkin.runtime.outputs import published_folder
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import require_choice

SYLLABLES = ("ba", "do", "ke", "li", "mu", "na", "po", "ri", "sa", "tu", "ve", "wo", "ze")
SYLLABLES_PER_WORD = 4
TEMPLATE_WORDS = 120
"""The number of words of a form, or of a base text."""
NUMBERS = 3
"""The number of numbers that are filled into a form."""
SHORT_ADDITION = 10
"""The number of words of a short addition, whose document still resembles the base text."""
LONG_ADDITION = 200
"""The number of words of a long addition, whose document hardly resembles the base text."""
TEXT_LENGTHS = (60, 120, 250, 500, 1000, 2000)
"""The numbers of words of the texts in which something is changed."""
WORDS_PER_SENTENCE = 12
CHANGED_SENTENCE = (
    "Anna has sent twelve boxes of 250 kg for $ 4,500 at 5 °C and 80 percent to Bert."
)
"""A sentence that is in every text of changes, at a random place."""
ADDED_WORDS = 3
"""The number of words that two texts add, each its own."""


class Change(StrEnum):
    """The kinds of changes between two texts."""

    NAME = "another name"
    NUMBER = "another number"
    SEPARATOR = "a number without its separator"
    NUMBER_WORD = "another number word"
    UNIT = "another unit"
    NEGATION = "a negation"
    CURRENCY = "another currency sign"
    MINUS = "a minus sign"
    SYMBOL = "a lost symbol"
    ORDER = "two names in exchanged order"
    ADDITIONS = "additions of three words in both"
    CASE = "other case"
    SPACE = "other white space"
    PUNCTUATION = "other punctuation"
    LONGER_END = "an addition at the end"
    ADDED_SENTENCE = "an added sentence"


REPLACED = {
    Change.NAME: ("Anna", "Berta"),
    Change.NUMBER: ("250", "260"),
    Change.SEPARATOR: ("4,500", "4500"),
    Change.NUMBER_WORD: ("twelve", "thirteen"),
    Change.UNIT: ("kg", "mg"),
    Change.NEGATION: ("has sent", "has not sent"),
    Change.CURRENCY: ("$", "€"),
    Change.MINUS: ("at 5", "at -5"),
    Change.SYMBOL: ("°C", "C"),
}
"""The parts of CHANGED_SENTENCE that changes replace, after which neither text says the other."""


HARMLESS: dict[Change, Callable[[str], str]] = {
    Change.CASE: str.upper,
    Change.SPACE: lambda text: text.replace(". ", ".\n\n").replace(" ", "  "),
    Change.PUNCTUATION: lambda text: f"“{text.replace('. ', ' — ').replace(' to ', ', to ')}”",
}
"""The changes after which both texts say the same."""


class LossKind(StrEnum):
    """The kinds of corpora."""

    FORMS = "forms"
    ADDITIONS = "additions"
    CHANGES = "changes"


FAMILY_SIZES = {LossKind.FORMS: 5, LossKind.ADDITIONS: 5, LossKind.CHANGES: 2}
"""The number of documents of a family."""


class LabelledDocument(NamedTuple):
    """A document, and the documents that say all of it."""

    id: str
    text: str
    said_by: tuple[str, ...]
    """The ids of the other documents that say all that this one says."""
    change: str | None = None
    """The kind of change of the family, in a corpus of changes."""
    words: int | None = None
    """The number of words of the unchanged text, in a corpus of changes."""


Family: TypeAlias = list[LabelledDocument]


@dataclass(frozen=True)
class LossScore:
    """The removals of a run over a corpus.

    Attributes:
        removed: Number of removed documents.
        lost: Number of removed documents that the document kept in their place does not say.
        removable: Number of documents that can be removed without a loss.
    """

    removed: int
    lost: int
    removable: int

    @property
    def recall(self) -> float:
        """The share of the removable documents that were removed without a loss."""
        return (self.removed - self.lost) / self.removable if self.removable else 1.0


def make_loss_corpus(kind: LossKind, documents: int, seed: int = 1) -> list[LabelledDocument]:
    """Returns the documents of a corpus, in families of five, or of two in a corpus of changes."""
    generator = random.Random(f"{kind}-{seed}")
    families = documents // FAMILY_SIZES[kind]
    made = islice(_make_families(kind, generator), families)
    return [document for family in made for document in family]


def _make_families(kind: LossKind, generator: random.Random) -> Iterator[Family]:
    """Yields families of a kind without end."""
    cases = cycle(product(TEXT_LENGTHS, Change))
    for number in count():
        name = f"{number:06d}"
        if kind == LossKind.CHANGES:
            words, change = next(cases)
            yield _make_change(generator, name, change, words)
        elif kind == LossKind.FORMS:
            yield _make_forms(generator, name)
        else:
            yield _make_additions(generator, name)


def _make_change(generator: random.Random, family: str, change: Change, words: int) -> Family:
    """Returns a text and a version of it with a change."""
    sentences = _make_sentences(generator, words)
    text = " ".join(sentences)
    names = (f"{family}-first", f"{family}-second")
    said_by: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    if change in REPLACED:
        texts = (text, text.replace(*REPLACED[change]))
    elif change == Change.ORDER:
        texts = (text, text.replace("Anna", "?").replace("Bert", "Anna").replace("?", "Bert"))
    elif change == Change.ADDITIONS:
        texts = (
            f"{text} {_draw_sentence(generator, ADDED_WORDS)}",
            f"{text} {_draw_sentence(generator, ADDED_WORDS)}",
        )
    elif change in HARMLESS:
        texts = (text, HARMLESS[change](text))
        said_by = ((names[1],), (names[0],))
    else:
        at = sentences.index(CHANGED_SENTENCE) if change == Change.ADDED_SENTENCE else words
        sentences.insert(at, _draw_sentence(generator, WORDS_PER_SENTENCE))
        texts = (text, " ".join(sentences))
        said_by = ((names[1],), ())
    return [
        LabelledDocument(name, text, sayers, str(change), words)
        for name, text, sayers in zip(names, texts, said_by, strict=True)
    ]


def _make_sentences(generator: random.Random, words: int) -> list[str]:
    """Returns sentences of a number of words together, one of which is CHANGED_SENTENCE."""
    remaining = words - len(CHANGED_SENTENCE.split())
    sentences = []
    while remaining > 0:
        sentences.append(_draw_sentence(generator, min(remaining, WORDS_PER_SENTENCE)))
        remaining -= WORDS_PER_SENTENCE
    sentences.insert(generator.randint(0, len(sentences)), CHANGED_SENTENCE)
    return sentences


def _draw_sentence(generator: random.Random, words: int) -> str:
    return f"{' '.join(_draw_words(generator, words)).capitalize()}."


def _make_forms(generator: random.Random, family: str) -> Family:
    """Returns two forms, a copy of each, and a form that differs from the first in one number."""
    words = _draw_words(generator, TEMPLATE_WORDS)
    places = sorted(generator.sample(range(TEMPLATE_WORDS), NUMBERS))
    first, second = (_draw_numbers(generator) for _ in range(2))
    third = [*first[:-1], first[-1] + 1]
    names = [f"{family}-{name}" for name in ("first", "copy", "second", "copy2", "third")]
    texts = [_fill(words, places, numbers) for numbers in (first, first, second, second, third)]
    said_by = [(names[1],), (names[0],), (names[3],), (names[2],), ()]
    texts[1] = _change_look(texts[1])
    texts[3] = _change_look(texts[3])
    return list(map(LabelledDocument, names, texts, said_by))


def _make_additions(generator: random.Random, family: str) -> Family:
    """Returns a base text, a copy of it, and three texts that add different passages to it."""
    base = " ".join(_draw_words(generator, TEMPLATE_WORDS))
    names = [f"{family}-{name}" for name in ("base", "copy", "long", "short", "short2")]
    additions = [
        " ".join(_draw_words(generator, words))
        for words in (LONG_ADDITION, SHORT_ADDITION, SHORT_ADDITION)
    ]
    texts = [base, _change_look(base), *(f"{base} {addition}" for addition in additions)]
    said_by = [tuple(names[1:]), (names[0], *names[2:]), (), (), ()]
    return list(map(LabelledDocument, names, texts, said_by))


def _draw_words(generator: random.Random, count: int) -> list[str]:
    return ["".join(generator.choices(SYLLABLES, k=SYLLABLES_PER_WORD)) for _ in range(count)]


def _draw_numbers(generator: random.Random) -> list[int]:
    return [generator.randrange(1000, 10**6) for _ in range(NUMBERS)]


def _fill(words: Sequence[str], places: Sequence[int], numbers: Sequence[int]) -> str:
    filled = list(words)
    for place, number in zip(places, numbers, strict=True):
        filled[place] = str(number)
    return " ".join(filled)


def _change_look(text: str) -> str:
    """Returns a text with the same words and numbers, in other letters and with punctuation."""
    return f"{text.upper().replace(' ', ', ', 1)}."


def score_losses(corpus: Sequence[LabelledDocument], kept_of: Mapping[str, str]) -> LossScore:
    """Returns what a run lost of a corpus."""
    removed = [document for document in corpus if kept_of[document.id] != document.id]
    lost = sum(kept_of[document.id] not in document.said_by for document in removed)
    said_by = {document.id: document.said_by for document in corpus}
    # Of documents that say the same, the first must stay unless another one says more.
    removable = sum(
        any(document.id not in said_by[other] or other < document.id for other in document.said_by)
        for document in corpus
    )
    return LossScore(len(removed), lost, removable)


def parse_loss_kind(name: str) -> LossKind:
    """Returns the kind of a name."""
    require_choice("losses", name, LossKind)
    return LossKind(name)


def write_loss_corpus(
    out: str | Path, kind: LossKind, documents: int, seed: int = 1
) -> dict[str, object]:
    """Writes a corpus and its truth into a new folder, which appears when it is complete.

    `documents/documents.parquet` has the columns id and text. `truth.parquet` has the columns id
    and said_by, the list of the ids of the documents that say all of it; and for changes, `change`
    and `words`, the length of the unchanged text. `synth.json` contains the settings and counts.
    """
    if documents < FAMILY_SIZES[kind]:
        raise UsageError(
            f"{name_setting('documents', documents)} is too few for a family of "
            f"{FAMILY_SIZES[kind]}; give more"
        )
    corpus = make_loss_corpus(kind, documents, seed)
    ids = pa.array([document.id for document in corpus], pa.string())
    texts = pa.array([document.text for document in corpus], pa.string())
    said_by = pa.array([list(document.said_by) for document in corpus], pa.list_(pa.string()))
    truth = pa.table({"id": ids, "said_by": said_by})
    if kind == LossKind.CHANGES:
        truth = truth.append_column("change", pa.array([each.change for each in corpus]))
        truth = truth.append_column("words", pa.array([each.words for each in corpus]))
    facts: dict[str, object] = {
        "losses": str(kind),
        "documents": len(corpus),
        "seed": seed,
        "text_bytes": sum(len(document.text) for document in corpus),
    }
    with published_folder(Path(out), "nearkin lab synth") as staged:
        (staged / "documents").mkdir()
        table = pa.table({"id": ids, "text": texts})
        pq.write_table(table, staged / "documents" / "documents.parquet")
        pq.write_table(truth, staged / "truth.parquet")
        (staged / "synth.json").write_bytes(
            orjson.dumps(facts, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
        )
    return facts
