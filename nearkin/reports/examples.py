"""Pairs of a run as examples, with their texts and the marked differences.

They are spread over the similarities, so that a few of them show what a threshold finds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup
from rich.console import Console

from nearkin.corpus import Corpus
from nearkin.corpus.columns import Columns
from nearkin.corpus.places import places_of
from nearkin.engine.clustering import Clustering
from nearkin.engine.documents import take_values
from nearkin.engine.removal_quotes import read_texts
from nearkin.engine.run import Run
from nearkin.errors import UsageError
from nearkin.reports.diff import DocumentRole
from nearkin.reports.excerpts import EXCERPT_CHARACTERS
from nearkin.reports.formatting import describe_match
from nearkin.reports.page import describe_equal_texts, diff_markup
from nearkin.reports.terminal.clusters import DocumentView, two_documents_table
from nearkin.runtime.number_format import format_similarity
from nearkin.runtime.visible_text import make_visible

MOST_EXAMPLES = 20
"""The largest number of pairs that are shown."""
TABLE = Markup("<div><strong>PairExamples</strong><table>{}</table></div>")
HEADER = Markup("<tr><th>{}</th><th>{}</th><th>similarity</th></tr>")
ROW = Markup("<tr>{}</tr>")
NAME = Markup("<small>{}</small>\n")
CELL = Markup('<td style="text-align: left; vertical-align: top; white-space: pre-wrap">{}</td>')


class PairExample(NamedTuple):
    """A pair of documents with the beginnings of their texts, at most 4,000 characters each.

    Of a deduplication, document a is the kept one and document b the removed one.
    """

    id_a: str
    id_b: str
    similarity: float
    text_a: str
    text_b: str


@dataclass(frozen=True, repr=False)
class PairExamples:
    """Examples of pairs, the least similar first. A terminal and a notebook mark differences.

    Attributes:
        pairs: The examples.
        roles: The roles of the two documents of each pair.
    """

    pairs: tuple[PairExample, ...]
    roles: tuple[DocumentRole, DocumentRole]

    def __getitem__(self, place: int) -> PairExample:
        return self.pairs[place]

    def __iter__(self) -> Iterator[PairExample]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def _labels(self) -> tuple[str, str]:
        if self.roles[0] is DocumentRole.COMPARED:
            return "first", "second"
        return self.roles[0].value, self.roles[1].value

    def __repr__(self) -> str:
        shown = StringIO()
        console = Console(file=shown)
        first, second = self._labels
        for pair in self.pairs:
            left = DocumentView(first, pair.id_a, pair.text_a)
            label = f"{second}, {describe_match(pair.similarity)}"
            right = DocumentView(label, pair.id_b, pair.text_b)
            console.print()
            console.print(two_documents_table(left, right, styled=False, roles=self.roles))
        lines = [f"<PairExamples: {len(self)} pairs>", *shown.getvalue().splitlines()]
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        rows = [HEADER.format(*self._labels)]
        for pair in self.pairs:
            left, right = diff_markup(pair.text_a, pair.text_b, *self.roles)
            cells = (
                NAME.format(make_visible(pair.id_a)) + left,
                NAME.format(make_visible(pair.id_b))
                + (right or describe_equal_texts(pair.text_a, pair.text_b)),
                format_similarity(pair.similarity),
            )
            rows.append(ROW.format(Markup("").join(map(CELL.format, cells))))
        return str(TABLE.format(Markup("").join(rows)))


@dataclass(frozen=True)
class LocatedPairs:
    """Pairs that are spread over the similarities, and where their documents are.

    Attributes:
        corpus: The corpus, which is read once more for the texts.
        columns: Its columns.
        ids: The ids of both documents of each pair, the least similar pair first.
        similarity: The similarities, float64 (n,).
        places: The places of the documents, uint64 (n, 2).
        roles: The roles of the two documents of each pair.
    """

    corpus: Corpus
    columns: Columns
    ids: tuple[tuple[str, str], ...]
    similarity: np.ndarray
    places: np.ndarray
    roles: tuple[DocumentRole, DocumentRole]

    @classmethod
    def of_removals(cls, run: Run, clustering: Clustering) -> Self:
        """Returns removed documents with the ones that are kept in their place."""
        removed = np.flatnonzero(clustering.removed_in_run)
        kept = np.asarray(clustering.leader)[removed]
        similarity = np.asarray(clustering.similarity)[removed]
        roles = (DocumentRole.KEPT, DocumentRole.REMOVED)
        return cls._locate(run, np.stack([kept, removed], 1).astype(np.int64), similarity, roles)

    @classmethod
    def of_pairs(cls, run: Run, pairs: pa.Table, similarity: pa.ChunkedArray) -> Self:
        """Returns rows of a table of pairs."""
        values = np.asarray(similarity, np.float64)
        chosen = spread_over(values, MOST_EXAMPLES)
        named = [take_values(pairs[name], chosen) for name in ("id_a", "id_b")]
        ids = run.documents().ids
        wanted = pa.chunked_array(named, pa.large_string()).combine_chunks()
        places = pc.index_in(ids, value_set=wanted)
        numbers = np.flatnonzero(places.is_valid().to_numpy())
        number_of = dict(zip(take_values(ids, numbers).to_pylist(), numbers.tolist(), strict=True))
        rows = [[number_of[name] for name in ids_of.to_pylist()] for ids_of in named]
        roles = (DocumentRole.COMPARED, DocumentRole.COMPARED)
        return cls._locate(run, np.array(rows, np.int64).T, values[chosen], roles)

    @classmethod
    def _locate(
        cls,
        run: Run,
        numbers: np.ndarray,
        similarity: np.ndarray,
        roles: tuple[DocumentRole, DocumentRole],
    ) -> Self:
        chosen = spread_over(similarity, MOST_EXAMPLES)
        numbers = numbers[chosen]
        documents = run.documents()
        first, second = (take_values(documents.ids, side).to_pylist() for side in numbers.T)
        flat = numbers.ravel()
        places = places_of(documents.files[flat], documents.rows[flat]).reshape(-1, 2)
        ids = tuple(zip(first, second, strict=True))
        return cls(run.corpus, run.columns, ids, similarity[chosen], places, roles)

    def read(self, count: int) -> PairExamples:
        """Reads the texts of some of the pairs.

        Raises:
            UsageError: If the number of pairs is out of range.
        """
        if not 1 <= count <= MOST_EXAMPLES:
            raise UsageError(
                f"the number of examples is {count}; it must be from 1 to {MOST_EXAMPLES}"
            )
        chosen = spread_over(self.similarity, count)
        texts = read_texts(self.corpus, self.columns, self.places[chosen], EXCERPT_CHARACTERS)
        pairs = []
        for place in chosen.tolist():
            id_a, id_b = self.ids[place]
            text_a, text_b = (texts[number] for number in self.places[place].tolist())
            pairs.append(PairExample(id_a, id_b, float(self.similarity[place]), text_a, text_b))
        return PairExamples(tuple(pairs), self.roles)


def spread_over(similarity: np.ndarray, count: int) -> np.ndarray:
    """Returns the numbers of values in even steps of their rank, the lowest first, int64 (n,).

    Pairs of equal texts, which have nothing to show, are left out if there are others.

    Examples:
        >>> spread_over(np.array([1.0, 0.9, 0.7, np.nan, 0.8]), 2).tolist()
        [2, 1]
    """
    different = np.flatnonzero(similarity < 1)
    known = different if len(different) else np.flatnonzero(~np.isnan(similarity))
    ranked = known[np.argsort(similarity[known], kind="stable")]
    if not len(ranked):
        return ranked
    return ranked[np.unique(np.linspace(0, len(ranked) - 1, count).round().astype(np.int64))]
