"""A labelled set: documents whose true clusters are known."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa


class LabelledRow(NamedTuple):
    """A document before it is placed in a set.

    Attributes:
        cluster: Name of the true cluster.
        fields: Values by name, in the order in which they form the text. None is a missing value.
        source: Name of the source, or an empty text.
        variant: How the document was made, for example the level of an edit.
    """

    cluster: str
    fields: Mapping[str, str | None]
    source: str = ""
    variant: str = ""


@dataclass(frozen=True)
class LabelledSet:
    """Documents with their true clusters.

    Attributes:
        name: Name of the set.
        kind: Kind of data, which is the name of a preset.
        documents: Columns `id`, `text`, `source`, and one for each field.
        clusters: Number of the true cluster of each document, int64 (n,).
        variants: How each document was made.
        fields: Names of the columns that form the text.
        across: Whether only documents of different sources can be duplicates.
    """

    name: str
    kind: str
    documents: pa.Table
    clusters: np.ndarray
    variants: tuple[str, ...]
    fields: tuple[str, ...]
    across: bool = False

    @property
    def texts(self) -> list[str]:
        """The text of each document."""
        texts: list[str] = self.documents["text"].to_pylist()
        return texts

    def select(self, rows: np.ndarray) -> "LabelledSet":
        """Returns the set of some documents.

        Args:
            rows: Numbers of the documents, int64 (m,).
        """
        return LabelledSet(
            name=self.name,
            kind=self.kind,
            documents=self.documents.take(rows),
            clusters=self.clusters[rows],
            variants=tuple(self.variants[row] for row in rows.tolist()),
            fields=self.fields,
            across=self.across,
        )


def build_set(
    name: str, kind: str, rows: Sequence[LabelledRow], seed: int, *, across: bool = False
) -> LabelledSet:
    """Returns the set of some rows, in random order.

    Args:
        name: Name of the set.
        kind: Kind of data.
        rows: Documents. All have the same fields.
        seed: Seed of the order.
        across: Whether only documents of different sources can be duplicates.
    """
    ordered = list(rows)
    random.Random(seed).shuffle(ordered)
    fields = tuple(ordered[0].fields)
    columns: dict[str, list[str | None]] = {
        "id": [f"{row:05d}" for row in range(len(ordered))],
        "text": [" ".join(value for value in row.fields.values() if value) for row in ordered],
        "source": [row.source for row in ordered],
    }
    for field in fields:
        if field != "text":
            columns[field] = [row.fields[field] for row in ordered]
    _, clusters = np.unique([row.cluster for row in ordered], return_inverse=True)
    return LabelledSet(
        name=name,
        kind=kind,
        documents=pa.table(
            {label: pa.array(values, pa.string()) for label, values in columns.items()}
        ),
        clusters=clusters.astype(np.int64),
        variants=tuple(row.variant for row in ordered),
        fields=fields,
        across=across,
    )


def split_halves(labelled: LabelledSet, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the documents of two halves of the clusters. No cluster is in both.

    Args:
        labelled: The set.
        seed: Seed of the choice.

    Returns:
        The numbers of the documents of each half, int64.
    """
    names = np.unique(labelled.clusters)
    chosen = np.random.default_rng(seed).permutation(names)[: len(names) // 2]
    is_first = np.isin(labelled.clusters, chosen)
    return np.flatnonzero(is_first), np.flatnonzero(~is_first)
