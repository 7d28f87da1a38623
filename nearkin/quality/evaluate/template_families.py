"""Finds template families: documents that are equal but for values such as dates and numbers.

Log lines, tickets and filled-in forms are made from templates. A sample of the documents shows the
templates from which many documents are made, whatever clusters they are in.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearkin.quality.evaluate.boilerplate import TextSample
from nearkin.settings.spec import MASK_STEPS
from nearkin.stages.shingle.masks import MARK_END, MARK_START, mark_values, mask_texts

MAX_BYTES = 4000
"""The largest document that is examined, in bytes. Longer ones are rarely made from a template."""
MIN_TEXTS = 5
"""The smallest number of different texts of a family."""
LISTED_FAMILIES = 10
"""The number of families that are listed."""
SKELETON_CHARACTERS = 300
"""The number of characters of a skeleton that are shown."""
SAMPLE_SEED = 2


@dataclass(frozen=True)
class TemplateFamily:
    """Examined documents that are equal but for masked values.

    Attributes:
        skeleton: The text of one of them, in which each value is the name of its kind between ‹ and
            ›. Only its beginning, if it is long.
        documents: Number of examined documents.
        texts: Number of different texts among them.
        clusters: Number of clusters that they are in.
    """

    skeleton: str
    documents: int
    texts: int
    clusters: int


@dataclass(frozen=True)
class TemplateFamilies:
    """The template families of a run.

    Attributes:
        examined: Number of examined documents: all of at most 4,000 bytes, or a random sample.
        families: Number of families.
        documents: Number of examined documents that are in a family.
        largest: Largest families, the largest first.
    """

    examined: int
    families: int
    documents: int
    largest: tuple[TemplateFamily, ...]


def draw_documents(lengths: np.ndarray) -> TextSample:
    """Returns an empty sample of the documents that are examined, by the bytes of all, (n,)."""
    ordinals = np.flatnonzero(lengths <= MAX_BYTES)
    mean_bytes = float(lengths[ordinals].mean()) if len(ordinals) else 0.0
    return TextSample(ordinals, mean_bytes, SAMPLE_SEED)


def find_template_families(documents: pa.Array, clusters: np.ndarray) -> TemplateFamilies | None:
    """Finds the families among examined documents, of which each has its cluster, integers (n,).

    A family is a set of examined documents with at least five different texts whose masked texts
    are equal. Values are masked as by the normalization steps of the same names: `email`, `uuid`,
    `ip`, `date`, `path`, `hex` and `number`. The skeleton has a letter beside the values.
    """
    if not pa.types.is_string(documents.type) and not pa.types.is_large_string(documents.type):
        return None
    masked = mask_texts(documents.cast(pa.large_string()), MASK_STEPS).to_pylist()
    repeated = {text for text, count in Counter(masked).items() if count >= MIN_TEXTS}
    members: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(masked):
        if text in repeated:
            members[text].append(row)
    families = []
    for rows in members.values():
        texts = set(documents.take(pa.array(rows)).to_pylist())
        skeleton = mark_values(documents[rows[0]].as_py())
        if len(texts) < MIN_TEXTS or not _has_words(skeleton):
            continue
        in_clusters = np.unique(clusters[rows])
        shown = skeleton
        if len(skeleton) > SKELETON_CHARACTERS:
            shown = f"{skeleton[:SKELETON_CHARACTERS]}…"
        families.append(TemplateFamily(shown, len(rows), len(texts), len(in_clusters)))
    if not families:
        return None
    families.sort(key=lambda family: (-family.documents, family.skeleton))
    return TemplateFamilies(
        examined=len(masked),
        families=len(families),
        documents=sum(family.documents for family in families),
        largest=tuple(families[:LISTED_FAMILIES]),
    )


def _has_words(skeleton: str) -> bool:
    rest = skeleton
    for step in MASK_STEPS:
        rest = rest.replace(f"{MARK_START}{step}{MARK_END}", "")
    return any(character.isalpha() for character in rest)
