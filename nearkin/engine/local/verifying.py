"""Stage 4: candidates to scored pairs, by exact comparison of payloads recomputed for candidate documents only."""

from collections.abc import Callable, Iterator

import numpy as np

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.pairs import ScoredWriter
from nearkin.engine.local.work import WorkFolder, map_file
from nearkin.engine.progress import Progress
from nearkin.engine.settings import Settings
from nearkin.lsh import kernels
from nearkin.shingle import Shingler
from nearkin.threads import Borrowed, ordered_map
from nearkin.verify.exact import Inverted, Overlaps, SetBuilder, Sets, compare_all, overlaps, slabs

ABSENT = np.uint32(0xFFFFFFFF)
PAIRS_AT_ONCE = 1 << 18


class Payloads:
    """Sorted shingle sets of some documents, one after the other in a mapped file."""

    def __init__(self, place: np.ndarray, starts: np.ndarray, hashes: np.ndarray) -> None:
        self.place = place
        self.starts = starts
        self.hashes = hashes

    @classmethod
    def build(
        cls, corpus: Corpus, columns: Columns, wanted: np.ndarray, settings: Settings, work: WorkFolder, progress: Progress
    ) -> "Payloads":
        """Reads the corpus again and keeps the sets of the wanted ordinals (sorted)."""
        builders = Borrowed(lambda: SetBuilder(Shingler(settings.spec)))

        def sets_of(batch: Batch) -> tuple[Sets, int]:
            low, high = np.searchsorted(wanted, [batch.first, batch.first + len(batch.rows)])
            rows = wanted[low:high] - batch.first
            documents = batch.documents[columns.content].take(rows)
            return builders.use(lambda builder: builder.sets(documents)), len(batch.rows)

        sizes, path = [np.zeros(1, np.int64)], work.path / "payloads"
        with path.open("wb") as file:
            for sets, count in ordered_map(sets_of, corpus.batches(columns), settings.workers):
                file.write(sets.hashes.data)
                sizes.append(sets.sizes)
                progress.advance(count)
        return cls(_places(wanted, int(wanted[-1]) + 1 if len(wanted) else 0), np.cumsum(np.concatenate(sizes)), _mapped(path))

    def compare(self, pairs: np.ndarray) -> Overlaps:
        """Exact overlap of pairs of stored documents."""
        return overlaps(pairs, self.place, self.starts, self.hashes)

    @property
    def sizes(self) -> np.ndarray:
        """Distinct shingles of each stored document."""
        return np.diff(self.starts)


def _mapped(path: object) -> np.ndarray:
    return map_file(path, np.uint64)  # type: ignore[arg-type]


def _places(wanted: np.ndarray, n: int) -> np.ndarray:
    place = np.full(n, ABSENT, np.uint32)
    place[wanted] = np.arange(len(wanted), dtype=np.uint32)
    return place


def documents_of(pairs: np.ndarray, n: int) -> np.ndarray:
    """Ordinals that occur in a pair, sorted, int64."""
    seen = np.zeros(n, bool)
    for portion in portions(pairs):
        seen[portion >> np.uint64(32)] = True
        seen[portion & np.uint64(0xFFFFFFFF)] = True
    return np.flatnonzero(seen)


def portions(pairs: np.ndarray) -> Iterator[np.ndarray]:
    """Slices of packed pairs, mapped or not, small enough to score at a time."""
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        yield np.asarray(pairs[start : start + PAIRS_AT_ONCE])


def exactly(payloads: Payloads, settings: Settings) -> Callable[[np.ndarray], Overlaps]:
    """Scores pairs by their exact similarity; those below the threshold fall away."""

    def score(pairs: np.ndarray) -> Overlaps:
        scored = payloads.compare(pairs)
        return scored.where(scored.at_least(settings.threshold))

    return score


def score_by_estimate(pairs: np.ndarray, documents: Documents) -> Overlaps:
    """Agreeing slots over k in the place of an overlap."""
    same = np.empty(len(pairs), np.int64)
    kernels.pair_agreements(pairs, documents.signatures, same)
    return Overlaps(pairs, same, np.full(len(pairs), documents.signatures.shape[1], np.int64))


def by_estimate(documents: Documents, settings: Settings) -> Callable[[np.ndarray], Overlaps]:
    """Scores pairs by their estimate; those below the threshold fall away, but for `verify=none`."""
    least = 0.0 if settings.verify == "none" else settings.threshold

    def score(pairs: np.ndarray) -> Overlaps:
        scored = score_by_estimate(pairs, documents)
        return scored.where(scored.at_least(least))

    return score


def verify(pairs: np.ndarray, score: Callable[[np.ndarray], Overlaps], workers: int, writer: ScoredWriter) -> None:
    """Writes the scored pairs, in order."""
    for scored in ordered_map(score, portions(pairs), workers):
        writer.add(scored)


def compare_everything(
    payloads: Payloads, wanted: np.ndarray, blocks: np.ndarray, settings: Settings, writer: ScoredWriter
) -> None:
    """Small corpora: all pairs of the wanted documents, exactly."""
    index = Inverted.of(Sets(np.asarray(payloads.hashes), payloads.sizes))
    inside = np.ascontiguousarray(blocks[wanted])
    found = Overlaps.concatenate(
        list(
            ordered_map(
                lambda slab: compare_all(index, *slab, inside, settings.threshold), slabs(len(wanted)), settings.workers
            )
        )
    )
    a, b = (
        wanted[(found.pairs >> np.uint64(32)).astype(np.int64)],
        wanted[(found.pairs & np.uint64(0xFFFFFFFF)).astype(np.int64)],
    )
    pairs = (a.astype(np.uint64) << np.uint64(32)) | b.astype(np.uint64)
    writer.add(Overlaps(pairs, found.shared, found.joint).where(np.argsort(pairs)))
