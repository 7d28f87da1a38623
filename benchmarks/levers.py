"""Measures the cost and the effect of each setting, for the tables of docs/explanation/levers.md.

python -m benchmarks.levers                 quick sizes, to the terminal
python -m benchmarks.levers --full --write  full sizes; writes levers.json and the tables of
docs/explanation/levers.md
"""

import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa

from benchmarks.hamming_pairs import all_pairs
from benchmarks.tables import Table, main
from nearkin.quality.lab.measurements import time_runs
from nearkin.settings.spec import SLOT_BITS, Spec
from nearkin.stages.lsh import kernels as lsh
from nearkin.stages.lsh.band_keys import probing_band_keys
from nearkin.stages.lsh.curve import band_probability
from nearkin.stages.lsh.probing import perturbations
from nearkin.stages.measures import BandingRequest
from nearkin.stages.measures.base import band_layout_of
from nearkin.stages.measures.jaccard import Jaccard
from nearkin.stages.sketch import kernels as sketching
from nearkin.stages.sketch.counting import CountingMinHash
from nearkin.stages.sketch.hyperplanes import ROWS, VectorSketcher, hyperplanes
from nearkin.stages.sketch.minhash import Binned, multipliers, splitmix64
from nearkin.stages.sketch.resources import DocumentFrequencies
from nearkin.stages.sketch.simhash import Signs
from nearkin.stages.sketch.sketcher import Sketcher, iterate_shingles

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "levers.md"
SET = 200
"""The number of elements of a set in the simulations, about that of a document of 1.5 kB."""


def pairs_of_sets(similarity: float, pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns pairs of sets of SET elements with a Jaccard similarity close to the given one.

    Args:
        similarity: Similarity of the two sets of a pair.
        pairs: Number of pairs.
        seed: Random seed.

    Returns:
        The hashes of all sets, the offsets of the sets, and the exact similarity of the pairs.
    """
    shared = round(2 * SET * similarity / (1 + similarity))
    pool = splitmix64(seed, pairs * (2 * SET - shared)).reshape(pairs, -1)
    both = np.stack([pool[:, :SET], pool[:, SET - shared :]], axis=1)
    return both.reshape(-1), np.arange(2 * pairs + 1) * SET, shared / (2 * SET - shared)


def slots_of(hashes: np.ndarray, offsets: np.ndarray, k: int) -> np.ndarray:
    """Returns binned signatures of sets, uint32 (n, k).

    Args:
        hashes: Shingle hashes of all sets, one set after the other, uint64.
        offsets: Begin of each set, and the end of the last one, int64 (n + 1,).
        k: Number of slots.
    """
    scheme = Binned(k, 1)
    out = np.empty((len(offsets) - 1, k), np.uint32)
    sketching.binned_minhash(hashes, offsets, scheme.rounds, scheme.completion, out)
    return out


def bits(full: bool) -> Table:
    """Measures size, error of the estimate, recall and precision at 0.8, by slot bits."""
    pairs = 20_000 if full else 2_000
    grid = np.linspace(0.5, 1.0, 26)
    rows = []
    for kept in SLOT_BITS:
        measure = Jaccard(Spec(slot_bits=kept))
        errors = []
        found = []
        truth = []
        for i, similarity in enumerate(grid):
            hashes, offsets, true = pairs_of_sets(
                float(similarity), pairs // len(grid) + 1, 100 + i
            )
            slots = slots_of(hashes, offsets, 128)
            signatures = np.empty((len(slots), 128 * kept // 8), np.uint8)
            if kept == 32:
                signatures = slots
            else:
                sketching.truncate(slots, kept, signatures)
            band_layout = band_layout_of(
                measure.spec,
                measure.banding(BandingRequest(0.8, 0.95)),
                np.empty((0, 0), np.uint64),
            )
            first = np.arange(0, len(slots), 2, dtype=np.uint64)
            packed, agreeing = (
                (first << np.uint64(32)) | (first + np.uint64(1)),
                np.empty(len(first), np.int64),
            )
            lsh.pair_agreements(packed, signatures, band_layout.layout, agreeing)
            chance = measure.estimator.chance_agreement
            estimated = (agreeing / 128 - chance) / (1 - chance)
            errors.append(estimated - true)
            found.append(estimated >= 0.8)
            truth.append(np.full(len(first), true >= 0.8))
        error = np.concatenate(errors)
        hit = np.concatenate(found)
        right = np.concatenate(truth)
        near = np.abs(grid.repeat(pairs // len(grid) + 1) - 0.8) < 0.03
        rows.append(
            (
                f"{kept}",
                f"{128 * kept // 8}",
                f"{np.sqrt(np.mean(error[near] ** 2)):.4f}",
                f"{measure.estimator.standard_error(0.8):.4f}",
                f"{(hit & right).sum() / right.sum():.3f}",
                f"{(hit & right).sum() / hit.sum():.3f}",
            )
        )
    note = (
        f"k = 128, binned, {pairs:,} pairs of sets of {SET} elements with similarities spread "
        f"evenly over 0.5 to 1, judged "
        "by the estimate alone at 0.8."
    )
    columns = (
        "bits",
        "bytes a document",
        "error at 0.8",
        "√(E(1 − E)/k)/(1 − 2⁻ᵇ)",
        "recall",
        "precision",
    )
    return Table("bits", note, columns, rows)


def keys_of(
    hashes: np.ndarray, offsets: np.ndarray, bands: int, rows: int, probes: int
) -> np.ndarray:
    """Returns band keys with their probes, uint64 (n, b, 1 + P).

    Args:
        hashes: Shingle hashes of all sets, one set after the other, uint64.
        offsets: Begin of each set, and the end of the last one, int64 (n + 1,).
        bands: Number of bands b.
        rows: Rows of a band.
        probes: Number of probes P of a band.
    """
    spec = Spec(k=256)
    slots, runners = np.empty((2, len(offsets) - 1, spec.k), np.uint32)
    sketching.two_smallest(hashes, offsets, *multipliers(spec), slots, runners)
    return probing_band_keys(slots, runners, bands, rows, probes).reshape(
        len(slots), bands, 1 + probes
    )


def have_common_key(posted: np.ndarray, queried: np.ndarray) -> np.ndarray:
    """Returns which pairs have a key of some band in common, bool (n,)."""
    return np.asarray((posted[:, :, :, None] == queried[:, :, None, :]).any(axis=(1, 2, 3)))


def minhash_probes(full: bool) -> Table:
    """Measures the recall by probes, with candidates and memory."""
    pairs = 20_000 if full else 2_000
    bands = 9
    rows = 10
    settings = [
        (0, "none", 1),
        *((p, side, 1) for p in (3, 10) for side in ("one-sided", "two-sided")),
        (0, "none", 2),
    ]
    found: dict[tuple[int, str, int], list[float]] = {setting: [] for setting in settings}
    for similarity in (0.7, 0.8, 0.9, 0.3):
        hashes, offsets, _ = pairs_of_sets(similarity, pairs, round(similarity * 1000))
        for setting in settings:
            probes, side, tables = setting
            keys = keys_of(hashes, offsets, bands * tables, rows, probes)
            a, b = keys[::2], keys[1::2]
            found[setting].append(
                float(have_common_key(a if side == "two-sided" else a[:, :, :1], b).mean())
            )
    out = []
    for probes, side, tables in settings:
        held = bands * tables * (1 + probes if side == "two-sided" else 1)
        looked = bands * tables * (1 + probes)
        recall = found[probes, side, tables]
        name = (
            f"{side}, {probes} probes" if probes else f"L = {tables}" if tables > 1 else "no probes"
        )
        theory = 1 - (
            1 - float(band_probability(0.8, rows, probes, one_sided=side == "one-sided"))
        ) ** (bands * tables)
        slots = 512 * tables
        out.append(
            (
                name,
                *(f"{r:.3f}" for r in recall[:3]),
                f"{theory:.3f}",
                f"{recall[3]:.1e}",
                f"{held}",
                f"{looked}",
                f"{slots}",
            )
        )
    note = (
        f"b × r = {bands} × {rows} of k = 128 slots (L = 2: of 256), {pairs:,} pairs of sets at "
        f"each similarity. Candidates: "
        "share of pairs at J = 0.3, which nobody wants, that become one."
    )
    columns = (
        "",
        "recall at 0.7",
        "0.8",
        "0.9",
        "0.8 in theory",
        "candidates at 0.3",
        "keys posted",
        "keys looked up",
        "bytes of signature",
    )
    return Table("minhash-probes", note, columns, out)


def hyperplane_probes(full: bool) -> Table:
    """Measures the recall of one table of hyperplanes by query-directed probes."""
    count = 4_000 if full else 400
    d = 64
    rows = 16
    bands = 4
    rng = np.random.default_rng(6)
    planes = hyperplanes(d, bands * rows, 1).astype(np.float64)
    planes /= np.linalg.norm(planes, axis=0)
    out = []
    for probes in (0, 4, 16, 64):
        recalls = []
        for similarity in (0.7, 0.8, 0.9):
            a, across = rng.normal(size=(2, count, d))
            across -= a * (np.vecdot(a, across) / np.vecdot(a, a))[:, None]
            across *= (np.linalg.norm(a, axis=1) / np.linalg.norm(across, axis=1))[:, None]
            b = similarity * a + np.sqrt(1 - similarity**2) * across
            x, y = a @ planes, b @ planes
            recalls.append(np.mean([probed(x[i], y[i], bands, rows, probes) for i in range(count)]))
        looked = bands * (1 + probes)
        out.append(
            (
                f"{probes}",
                *(f"{r:.3f}" for r in recalls),
                f"{looked * 2.0**-rows:.1e}",
                f"{bands}",
                f"{looked}",
            )
        )
    note = (
        f"{bands} bands of {rows} bits over vectors of {d} dimensions, {count:,} pairs at each "
        f"cosine; the query's buckets are "
        "probed in the order of their margins (Lv et al. 2007). Candidates: chance of a vector at "
        "a right angle."
    )
    columns = (
        "probes a band",
        "recall at cosine 0.7",
        "0.8",
        "0.9",
        "candidates at 0",
        "keys posted",
        "keys looked up",
    )
    return Table("hyperplane-probes", note, columns, out)


def probed(stored: np.ndarray, query: np.ndarray, bands: int, rows: int, probes: int) -> bool:
    """Returns whether a query and a stored vector share a key of some band.

    Args:
        stored: Projections of the stored vector, float32 (k,).
        query: Projections of the query, float32 (k,).
        bands: Number of bands.
        rows: Rows of a band.
        probes: Number of probes of a band of the query.
    """
    for band in range(bands):
        part = slice(band * rows, (band + 1) * rows)
        differing = tuple(np.flatnonzero((stored[part] > 0) != (query[part] > 0)).tolist())
        if not differing or differing in perturbations(np.abs(query[part]), probes):
            return True
    return False


def rate(work: Callable[[], object], amount: float, runs: int) -> str:
    """Returns the median amount per second, and the spread of the runs.

    Args:
        work: What is measured.
        amount: Amount that one call processes.
        runs: Number of measured calls, after one that is not measured.
    """
    work()
    rates = sorted(amount / seconds for seconds in time_runs(work, runs))
    return f"{rates[len(rates) // 2]:,.0f} ({rates[0]:,.0f} to {rates[-1]:,.0f})"


def documents(count: int) -> pa.Array:
    """Returns texts of about 1.5 kB."""
    rng = np.random.default_rng(2)
    words = np.array(
        [
            "".join(chr(97 + c) for c in rng.integers(0, 26, rng.integers(2, 10)))
            for _ in range(20_000)
        ]
    )
    return pa.array([" ".join(rng.choice(words, 230)) for _ in range(count)], pa.large_string())


def rates(full: bool) -> Table:
    """Measures the speed of sketching in one thread."""
    runs = 5 if full else 3
    texts = documents(5000)
    size = texts.nbytes / 1e6
    rows = []
    for name, spec, goal in (
        ("MinHash, k = 128", Spec(), ""),
        ("MinHash of 1 bit", Spec(slot_bits=1), ""),
        ("weighted Jaccard", Spec(measure="weighted-jaccard"), ""),
        ("SimHash, 64 bits", Spec(measure="simhash"), "≥ 120"),
        ("SimHash, 128 bits", Spec(measure="simhash", k=128), ""),
        ("MinHash, keyed (SipHash)", None, ""),
    ):
        sketcher = keyed_sketcher() if spec is None else Sketcher(spec)
        rows.append(
            (name, "MB/s of text", rate(lambda s=sketcher: s.sketch(texts), size, runs), goal)
        )
    shingles = next(
        part for _, part in iterate_shingles(Sketcher(Spec()).shingler, texts.slice(0, 400))
    )
    weights = DocumentFrequencies(
        10**6,
        np.unique(shingles.hashes)[:50_000],
        np.full(min(50_000, len(np.unique(shingles.hashes))), 7, np.uint32),
    )
    signs, out = Signs(64, 1, weights.table), np.empty((len(shingles.offsets) - 1, 1), np.uint64)
    rows.append(
        (
            "SimHash by tf-idf, of shingles",
            "million shingles/s",
            rate(lambda: signs.sketch(shingles, out), len(shingles.hashes) / 1e6, runs),
            "",
        )
    )
    counting, hashes = CountingMinHash(Spec()), splitmix64(5, 2000)
    rows.append(
        (
            "counting signature, add and discard",
            "thousand shingles/s",
            rate(
                lambda: counting.add_hashes(hashes).discard_hashes(hashes),
                2 * len(hashes) / 1e3,
                runs,
            ),
            "",
        )
    )
    rng = np.random.default_rng(1)
    n = 100_000
    pairs = (rng.integers(0, n, 4_000_000, np.uint64) << np.uint64(32)) | rng.integers(
        0, n, 4_000_000, np.uint64
    )
    agreeing = np.empty(len(pairs), np.int64)
    for kept in (1, 4, 32):
        measure = Jaccard(Spec(slot_bits=kept))
        kind = band_layout_of(
            measure.spec, measure.banding(BandingRequest(0.8, 0.95)), np.empty((0, 0), np.uint64)
        ).layout
        words = rng.integers(0, 256, (n, 16 * kept), np.uint8).view(
            Spec(slot_bits=kept).signature_type
        )

        def work(words: np.ndarray = words, kind: NamedTuple = kind) -> None:
            lsh.pair_agreements(pairs, words, kind, agreeing)

        rows.append(
            (
                f"estimate of pairs, {kept} bits, k = 128",
                "million pairs/s",
                rate(work, len(pairs) / 1e6, runs),
                "≥ 100" if kept == 1 else "",
            )
        )
    rows += hyperplane_rates(runs)
    return Table(
        "rates",
        "One thread, warm; median of the runs (least to most).",
        ("", "unit", "rate", "goal"),
        rows,
    )


def keyed_sketcher() -> Sketcher:
    """Measures the speed of sketching under a hash key."""
    from nearkin.settings.keys import HashKey
    from nearkin.stages.sketch.resources import SpecResources

    key = HashKey(bytes(range(16)))
    return Sketcher(Spec(base_hash="siphash", key_id=key.id), SpecResources(key))


def hyperplane_rates(runs: int) -> Iterator[tuple[str, ...]]:
    """Compares signatures of vectors with the plain matrix product, in GFLOP/s of the product."""
    d = 384
    k = 512
    n = 20_000
    vectors = np.random.default_rng(1).normal(size=(n, d)).astype(np.float32)
    planes, sketcher = (
        hyperplanes(d, k, 1),
        VectorSketcher(Spec(measure="cosine", unit="vector", n=d, k=k)),
    )
    work = 2 * n * d * k / 1e9

    def plain() -> None:
        for start in range(0, n, ROWS):
            vectors[start : start + ROWS] @ planes

    both = [
        (plain, "plain matrix product (float32)"),
        (lambda: sketcher.sketch_matrix(vectors), "hyperplane signatures"),
    ]
    medians = []
    for job, name in both:
        job()
        seconds = sorted(time_runs(job, 2 * runs + 1))
        medians.append(work / seconds[len(seconds) // 2])
        share = f"{medians[1] / medians[0]:.0%} of the plain product" if len(medians) == 2 else ""
        yield (
            f"{name}, d = {d}, k = {k}",
            "GFLOP/s",
            f"{medians[-1]:,.1f}" + (f", {share}" if share else ""),
            "≥ 60 %" if share else "",
        )


def hamming(full: bool) -> Table:
    """Measures finding all pairs within distance 3 among random and planted fingerprints."""
    n, planted = (10_000_000, 10_000) if full else (1_000_000, 1_000)
    rng = np.random.default_rng(1)
    words = splitmix64(11, n)
    a, b = rng.permutation(n)[: 2 * planted].reshape(2, -1)
    flips = np.zeros(planted, np.uint64)
    for _ in range(3):
        flips |= np.uint64(1) << rng.integers(0, 64, planted).astype(np.uint64)
    words[b] = words[a] ^ flips
    all_pairs(words[:1000], 3)
    out = []
    for workers in (1, 2):
        held = []
        seconds = time_runs(lambda w=workers, h=held: h.append(all_pairs(words, 3, workers=w)), 1)[
            0
        ]
        found = set(zip(held[0].a.tolist(), held[0].b.tolist(), strict=True))
        hits = sum(
            (min(x, y), max(x, y)) in found for x, y in zip(a.tolist(), b.tolist(), strict=True)
        )
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        out.append(
            (
                f"{workers}",
                f"{seconds:.1f} s",
                f"{len(found):,}",
                f"{hits / planted:.4f}",
                f"{memory:.2f} GB",
            )
        )
    note = (
        f"{n:,} fingerprints of 64 bits, {planted:,} planted pairs within distance 3. Goal: "
        f"120 "
        f"s, 4 GB, recall 1 on one core."
    )
    return Table(
        "hamming",
        note,
        ("threads", "wall", "pairs found", "recall of planted ones", "largest resident set"),
        out,
    )


def rounds(full: bool) -> Table:
    """Measures the error of the binned estimate by rounds, divided by √(J(1 − J)/k)."""
    pairs = 20_000 if full else 2_000
    out = []
    for similarity in (0.5, 0.8):
        for size in (20, 64, 200, 1000):
            shared = round(2 * size * similarity / (1 + similarity))
            true = shared / (2 * size - shared)
            pool = splitmix64(size, pairs * (2 * size - shared)).reshape(pairs, -1)
            hashes = np.stack([pool[:, :size], pool[:, size - shared :]], axis=1).reshape(-1)
            offsets = np.arange(2 * pairs + 1) * size
            row = []
            for count in range(1, 7):
                scheme, slots = Binned(128, 1), np.empty((2 * pairs, 128), np.uint32)
                multiplier = splitmix64(1, count) | np.uint64(1)
                sketching.binned_minhash(hashes, offsets, multiplier, scheme.completion, slots)
                error = (slots[::2] == slots[1::2]).mean(axis=1) - true
                row.append(f"{np.sqrt((error**2).mean() / (true * (1 - true) / 128)):.3f}")
            out.append((f"{size}", f"{true:.2f}", *row))
    note = (
        f"k = 128, {pairs:,} pairs of sets; error of the estimate over that of k random functions, "
        f"√(J(1 − J)/k): below 1 is "
        "better. R = 4 is format 1."
    )
    return Table("rounds", note, ("set size", "J", *(f"R = {r}" for r in range(1, 7))), out)


def streaming(full: bool) -> Table:
    """Measures how many elements a counting signature can lose before it must be rebuilt."""
    out = []
    for depth in (2, 4, 8, 16):
        gone = []
        for seed in range(20 if full else 5):
            elements = splitmix64(500 + seed, 1000)
            sketch, count = CountingMinHash(Spec(), depth).add_hashes(elements), 0
            while not sketch.rebuild_due:
                sketch.discard_hashes(elements[count : count + 10])
                count += 10
            gone.append(count)
        out.append((f"{depth}", f"{128 * (depth * 20 + 4):,}", f"{np.median(gone) / 1000:.0%}"))
    note = (
        "Of 1,000 elements, k = 128: the share that may be discarded, in any order, before "
        "some "
        "slot is unknown (median)."
    )
    return Table("streaming", note, ("depth", "bytes", "discarded when a rebuild is due"), out)


TABLES = (bits, minhash_probes, hyperplane_probes, rates, hamming, rounds, streaming)


if __name__ == "__main__":
    sys.exit(main(__doc__, TABLES, HERE / "levers.json", PAGE))
