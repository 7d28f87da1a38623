"""Generated corpora with planted items of a benchmark suite, and with documents of a template.

A planted item is a question of the suite in a document. Documents of the template and some
questions of the suite begin with the same instruction, and continue with other words.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.quality.lab.synth import Vocabulary
from nearkin.runtime.number_range import COUNT
from nearkin.runtime.outputs import published_folder

DOCUMENT_WORDS = 240
QUESTION_WORDS = (20, 60)
"""The smallest and the largest number of words of a question."""
INSTRUCTION_WORDS = 40
CONTENT_WORDS = 20
"""The number of words after the instruction, in a question and in a document of the template."""
PLANTED_EVERY = 50
"""One in so many documents contains an item, unless it begins with the instruction."""
TEMPLATE_EVERY = 15
"""One in so many documents, and one in so many items, begins with the instruction."""
EMBEDDING_FACTOR = 10
"""The size of a document in which an item is embedded, as a multiple of that of the item."""
LINE_WORDS = 8
BATCH_DOCUMENTS = 4096
TRUTH = pa.schema([("id", pa.large_string()), ("item", pa.large_string()), ("form", pa.string())])
"""The documents with a planted item, and those of the template, which have none."""


class PlantedForm(StrEnum):
    """The form in which an item is planted."""

    PLAIN = "plain"
    WRAPPED = "wrapped"
    UPPER = "upper"
    NO_PUNCTUATION = "no-punctuation"
    EMBEDDED = "embedded"


TEMPLATE = "template"
"""The form of the documents that begin with the instruction and hold no item."""


class ContaminatedCorpus:
    """The documents and items of a corpus."""

    def __init__(self, documents: int, items: int, seed: int = 1) -> None:
        COUNT.require("documents", documents)
        COUNT.require("items", items)
        vocabulary = Vocabulary.invented()
        content = vocabulary.words.tobytes()
        bounds = vocabulary.starts.tolist()
        self._words = np.array(
            [content[start:end].decode() for start, end in pairwise(bounds)],
            object,
        )
        self._frequencies = vocabulary.frequencies
        self.documents = documents
        self._rng = np.random.default_rng(seed)
        self._instruction = self._write(INSTRUCTION_WORDS)
        self.questions = [self._make_question(number) for number in range(items)]
        """The texts of the items."""

    def _write(self, count: int) -> str:
        """Returns sentences of some words."""
        drawn = self._rng.integers(0, len(self._frequencies), count)
        words = self._words[self._frequencies[drawn]].tolist()
        for place in range(0, count, 12):
            words[place] = words[place].capitalize()
            words[min(place + 5, count - 1)] += ","
            words[min(place + 11, count - 1)] += "."
        return " ".join(words)

    def _make_question(self, number: int) -> str:
        if number % TEMPLATE_EVERY == 0:
            return f"{self._instruction} {self._write(CONTENT_WORDS)}?"
        return f"{self._write(int(self._rng.integers(*QUESTION_WORDS)))}?"

    def rows(self) -> Iterator[tuple[str, str | None, str | None]]:
        """Yields the text of each document, the id of its item and its form, or None."""
        forms = list(PlantedForm)
        for number in range(self.documents):
            if number % TEMPLATE_EVERY == 1:
                yield f"{self._instruction} {self._write(CONTENT_WORDS)}", None, TEMPLATE
            elif number % PLANTED_EVERY == 2:
                item = int(self._rng.integers(0, len(self.questions)))
                form = forms[number // PLANTED_EVERY % len(forms)]
                yield self._plant(self.questions[item], form), str(item), form
            else:
                yield self._write(DOCUMENT_WORDS), None, None

    def _plant(self, question: str, form: PlantedForm) -> str:
        """Returns a document with an item."""
        words = question.split()
        match form:
            case PlantedForm.WRAPPED:
                lines = [words[at : at + LINE_WORDS] for at in range(0, len(words), LINE_WORDS)]
                question = "\n".join(" ".join(line) for line in lines)
            case PlantedForm.UPPER:
                question = question.upper()
            case PlantedForm.NO_PUNCTUATION:
                question = "".join(c for c in question if c.isalnum() or c.isspace())
        others = DOCUMENT_WORDS - len(words)
        if form == PlantedForm.EMBEDDED:
            others = (EMBEDDING_FACTOR - 1) * len(words)
        before = int(self._rng.integers(1, others))
        return f"{self._write(before)} {question} {self._write(others - before)}"


def write_contaminated_corpus(
    out: Path,
    documents: int,
    items: int,
    seed: int = 1,
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, int]:
    """Writes a corpus, the suite and the truth into a new folder, which appears when complete.

    `documents.parquet` has the columns id and text, `suite.parquet` id and question, and
    `truth.parquet` id, item and form of each document with a planted item. The item of a document
    of the template is null. Returns the numbers of documents, items, planted items, documents of
    the template, and bytes.
    """
    corpus = ContaminatedCorpus(documents, items, seed)
    with published_folder(out, "nearkin lab synth") as staged:
        return _write_files(staged, corpus, advance)


def _write_files(
    folder: Path, corpus: ContaminatedCorpus, advance: Callable[[int], None]
) -> dict[str, int]:
    suite = {"id": [str(n) for n in range(len(corpus.questions))], "question": corpus.questions}
    pq.write_table(pa.table(suite), folder / "suite.parquet")
    schema = pa.schema([("id", pa.large_string()), ("text", pa.large_string())])
    truth: list[dict[str, str | None]] = []
    facts = {"documents": 0, "items": len(corpus.questions), "planted": 0, "template": 0}
    text_bytes = 0
    with pq.ParquetWriter(folder / "documents.parquet", schema, compression="zstd") as writer:
        waiting: list[str] = []
        for text, item, form in corpus.rows():
            if form is not None:
                truth.append({"id": f"d{facts['documents']}", "item": item, "form": form})
                facts["template" if item is None else "planted"] += 1
            waiting.append(text)
            text_bytes += len(text.encode())
            facts["documents"] += 1
            if len(waiting) == BATCH_DOCUMENTS or facts["documents"] == corpus.documents:
                first = facts["documents"] - len(waiting)
                ids = [f"d{number}" for number in range(first, facts["documents"])]
                writer.write_table(pa.table([ids, waiting], schema=schema))
                advance(len(waiting))
                waiting = []
    pq.write_table(pa.Table.from_pylist(truth, TRUTH), folder / "truth.parquet")
    facts["text_bytes"] = text_bytes
    (folder / "synth.json").write_bytes(orjson.dumps(facts, option=orjson.OPT_INDENT_2))
    return facts
