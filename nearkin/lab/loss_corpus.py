"""Generated corpora in which a removed document may say something that no other one says.

In `forms`, the documents of a family differ in nothing but the numbers that were filled in. In
`additions`, they have a base text in common, and some add to it. The truth says for each document
which others say all of it, so that a removal is known to lose something or nothing.
"""

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.errors import RunError, UsageError
from nearkin.runtime.outputs import RESULT, claimed
from nearkin.setting_names import name_setting
from nearkin.suggestions import did_you_mean

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
DOCUMENTS_PER_FAMILY = 5


class LossKind(StrEnum):
    """The kinds of corpora."""

    FORMS = "forms"
    ADDITIONS = "additions"


class LabelledDocument(NamedTuple):
    """A document, and the documents that say all of it."""

    id: str
    text: str
    said_by: tuple[str, ...]
    """The ids of the other documents that say all that this one says."""


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
    """Returns the documents of a corpus, in families of five.

    Args:
        kind: Kind of the corpus.
        documents: Number of documents. It is rounded down to a multiple of five.
        seed: Random seed.
    """
    generator = random.Random(f"{kind}-{seed}")
    make_family = _make_forms if kind == LossKind.FORMS else _make_additions
    return [
        document
        for family in range(documents // DOCUMENTS_PER_FAMILY)
        for document in make_family(generator, f"{family:06d}")
    ]


def _make_forms(generator: random.Random, family: str) -> list[LabelledDocument]:
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


def _make_additions(generator: random.Random, family: str) -> list[LabelledDocument]:
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
    """Returns what a run lost of a corpus.

    Args:
        corpus: Documents of the corpus.
        kept_of: Id of the document that is kept in the place of each document, by its id.
    """
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
    """Returns the kind of a name.

    Raises:
        UsageError: If it is unknown.
    """
    if name not in list(LossKind):
        raise UsageError(
            f"{name_setting('losses', name)} is not one of {', '.join(LossKind)}"
            f"{did_you_mean(name, LossKind)}"
        )
    return LossKind(name)


def write_loss_corpus(
    out: str | Path, kind: LossKind, documents: int, seed: int = 1
) -> dict[str, object]:
    """Writes a corpus and its truth into a new folder, which appears when it is complete.

    `documents/documents.parquet` has the columns id and text. `truth.parquet` has the columns id
    and said_by, the list of the ids of the documents that say all of it. `synth.json` contains the
    settings and counts.

    Args:
        out: Folder to create.
        kind: Kind of the corpus.
        documents: Number of documents, at least five.
        seed: Random seed.

    Returns:
        The content of synth.json.

    Raises:
        UsageError: If `out` exists, or there are fewer than five documents.
        RunError: If the folder cannot be written.
    """
    folder = Path(out)
    if os.path.lexists(folder):
        raise UsageError(f"{folder} exists; choose another folder")
    if documents < DOCUMENTS_PER_FAMILY:
        raise UsageError(
            f"{name_setting('documents', documents)} is too few for a family of "
            f"{DOCUMENTS_PER_FAMILY}; give more"
        )
    corpus = make_loss_corpus(kind, documents, seed)
    ids = pa.array([document.id for document in corpus], pa.string())
    texts = pa.array([document.text for document in corpus], pa.string())
    said_by = pa.array([list(document.said_by) for document in corpus], pa.list_(pa.string()))
    facts: dict[str, object] = {
        "losses": str(kind),
        "documents": len(corpus),
        "seed": seed,
        "text_bytes": sum(len(document.text) for document in corpus),
    }
    try:
        with claimed(folder, "nearkin synth", replaces=False) as claim:
            staged = claim.path / RESULT
            (staged / "documents").mkdir(parents=True)
            table = pa.table({"id": ids, "text": texts})
            pq.write_table(table, staged / "documents" / "documents.parquet")
            pq.write_table(pa.table({"id": ids, "said_by": said_by}), staged / "truth.parquet")
            (staged / "synth.json").write_bytes(
                orjson.dumps(facts, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
            )
            claim.publish_new_folder(staged)
    except OSError as error:
        raise RunError(
            f"cannot write to {folder}: {error.strerror or error}; free some space or choose "
            "another folder"
        ) from error
    return facts
