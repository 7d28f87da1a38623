"""Compares families of base hashes and MinHash schemes with the theory of fully random functions.

For each family and scheme, it measures the throughput, the avalanche effect, and the bias and
variance of the Jaccard estimate. The sets are words of real text and structured sets (consecutive
integers, arithmetic progressions), whose regularity a weak hash passes on to its minima. The
references are the affine functions (a·x + b) mod 2⁶¹ − 1, which are 2-independent and which most
libraries use, and SHA-256, which is as good as random.

Sources: Broder, *On the resemblance and containment of documents* (1997): variance J(1 − J)/k of k
random functions. Pătraşcu, Thorup, *On the k-independence required by linear probing and minwise
independence* (ICALP 2010) and Thorup, *Bottom-k and priority sampling, set similarity and subset
sums with minimal independence* (STOC 2013): 2-independent functions are biased on structured sets.
Dahlgaard, Knudsen, Thorup, *Fast similarity sketching* (FOCS 2017): the rounds of `binned`.
Estébanez et al., *Performance of the most common non-cryptographic hash functions* (Software:
Practice and Experience, 2014): avalanche.
"""

import argparse
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks import hash_kernels as kernels
from nearkin.quality.lab.demo_corpus import installation_folders, list_source_files
from nearkin.quality.lab.measurements import time_runs
from nearkin.reports.terminal.tables import text_table
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import FAMILIES, KEYED, SEED_BITS
from nearkin.stages.hashing.families import hash_values, key_of
from nearkin.stages.hashing.kernels import hash_each
from nearkin.stages.sketch.minhash import EMPTY_SLOT, SCHEMES, splitmix64

K = 128
SET_SIZE = 500
PRIME = (1 << 61) - 1
SHA = "sha256"
AFFINE = "affine"
MAX_WORDS = 20_000
BLOCK_BYTES = 1024
INTEGER_BYTES = 8
"""The size of an integer that is an element of a set."""
Hasher = Callable[[list[bytes], int], np.ndarray]


@dataclass(frozen=True)
class Throughput:
    """The throughput of a family in one thread.

    Attributes:
        family: Family of the base hash.
        words: Speed for words of real text, each hashed separately, in MB/s.
        blocks: Speed for blocks of 1 KiB in MB/s, or None for affine functions, which take numbers.
    """

    family: str
    words: float
    blocks: float | None


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of the Jaccard estimate, compared with the theory.

    Attributes:
        family: Family of the base hash.
        scheme: Scheme of MinHash.
        sets: Kind of the sets.
        bias: Mean of estimate − J.
        bias_error: Standard error of the bias.
        variance: Variance of the estimate, divided by J(1 − J)/k.
    """

    family: str
    scheme: str
    sets: str
    bias: float
    bias_error: float
    variance: float


@dataclass(frozen=True)
class Avalanche:
    """The share of the bits of a hash that flip if one bit of the input is flipped.

    Attributes:
        family: Family of the base hash.
        mean: Mean share of the bits that flip. The ideal is 0.5.
        worst: Largest distance from 0.5 over all pairs of an input bit and an output bit.
    """

    family: str
    mean: float
    worst: float


class HashComparison(NamedTuple):
    """The results of the comparison: throughput, accuracy and avalanche of each family."""

    throughput: list[Throughput]
    accuracy: list[Accuracy]
    avalanche: list[Avalanche]

    def to_dict(self) -> dict[str, object]:
        """Returns the results as a JSON object."""
        return {name: [asdict(row) for row in rows] for name, rows in self._asdict().items()}


def family_hash(family: str) -> Hasher:
    """Returns a function that hashes values under a seed, or under a key made of it."""

    def run(values: list[bytes], seed: int) -> np.ndarray:
        if family == SHA:
            salt = seed.to_bytes(8, "little")
            digests = b"".join(hashlib.sha256(salt + value).digest()[:8] for value in values)
            return np.frombuffer(digests, "<u8").astype(np.uint64)
        secret = (
            HashKey(hashlib.sha256(seed.to_bytes(8, "little")).digest()[:16])
            if family == KEYED
            else None
        )
        return hash_values(values, key_of(family, seed & ((1 << SEED_BITS[family]) - 1), secret))

    return run


def read_words() -> list[bytes]:
    """Returns distinct words of Python's standard library, in the order of their occurrence."""
    words: dict[str, None] = {}
    for _, path in list_source_files(installation_folders()[:1]):
        words.update(dict.fromkeys(path.read_text("utf-8", "replace").lower().split()))
        if len(words) >= MAX_WORDS:
            break
    return [word.encode() for word in list(words)[:MAX_WORDS]]


class TrialSets(NamedTuple):
    """The two sets of a trial and their Jaccard similarity."""

    a: list[bytes]
    b: list[bytes]
    similarity: float


def encode_integers(numbers: range) -> list[bytes]:
    """Returns integers as 8 bytes each."""
    return [x.to_bytes(INTEGER_BYTES, "little") for x in numbers]


def draw_trial_sets(kind: str, trial: int, words: list[bytes]) -> TrialSets:
    """Returns two sets of SET_SIZE elements that share two thirds of them (J = 1/2)."""
    rng = random.Random(trial)
    shift = SET_SIZE // 3
    total = SET_SIZE + shift
    if kind == "words":
        chosen = rng.sample(words, total)
    else:
        step = 1 if kind == "consecutive integers" else rng.randrange(2, 1 << 20)
        start = rng.randrange(1 << 32)
        chosen = encode_integers(range(start, start + step * total, step))
    return TrialSets(chosen[:SET_SIZE], chosen[shift:], (SET_SIZE - shift) / total)


KINDS = ("words", "consecutive integers", "arithmetic progressions")


def minhash_estimate(family: str, scheme: str, sets: TrialSets, seed: int) -> float:
    """Returns the Jaccard estimate of one trial."""
    if family == AFFINE:
        return affine_estimate(sets, seed)
    hasher, functions = family_hash(family), SCHEMES[scheme](K, 1)
    signatures = []
    for values in (sets.a, sets.b):
        slots = np.full(K, EMPTY_SLOT, np.uint32)
        functions.update(hasher(values, seed), slots)
        signatures.append(slots)
    first, second = signatures
    return float(np.mean((first == second) & (first != EMPTY_SLOT)))


def affine_estimate(sets: TrialSets, seed: int) -> float:
    """Returns the Jaccard estimate of k affine functions of numbers.

    Integers are numbers themselves. Words are represented by their XXH3 hash.
    """
    a, b = (splitmix64(seed, K, first) % np.uint64(PRIME) for first in (0, K))
    minima = []
    for values in (sets.a, sets.b):
        integers = all(len(value) == INTEGER_BYTES for value in values)
        numbers = (
            np.frombuffer(b"".join(values), "<u8") if integers else family_hash("xxh3")(values, 0)
        )
        numbers = numbers.astype(np.uint64) % np.uint64(PRIME)
        out = np.empty(K, np.uint64)
        kernels.affine_minhash(numbers, np.maximum(a, np.uint64(1)), b, out)
        minima.append(out)
    return float(np.mean(minima[0] == minima[1]))


def measure_accuracy(trials: int) -> Iterator[Accuracy]:
    """Yields the accuracy of every family, scheme and reference, for all kinds of sets."""
    words = read_words()
    entrants = [(family, scheme) for family in (*FAMILIES, SHA) for scheme in sorted(SCHEMES)]
    for family, scheme in [*entrants, (AFFINE, "classic")]:
        for kind in KINDS:
            sets = [draw_trial_sets(kind, trial, words) for trial in range(trials)]
            estimates = np.array(
                [minhash_estimate(family, scheme, s, 1 + t) for t, s in enumerate(sets)]
            )
            errors = estimates - np.array([s.similarity for s in sets])
            j = sets[0].similarity
            spread = float(errors.var(ddof=1))
            yield Accuracy(
                family=family,
                scheme=scheme,
                sets=kind,
                bias=float(errors.mean()),
                bias_error=float(np.sqrt(spread / trials)),
                variance=spread / (j * (1 - j) / K),
            )


def measure_throughput(runs: int) -> Iterator[Throughput]:
    """Yields the throughput of every family, as the median of several runs."""
    words = read_words()
    blocks = [random.Random(1).randbytes(BLOCK_BYTES) for _ in range(2000)]
    for family in (*FAMILIES, SHA):
        rates = []
        for values in (words, blocks):
            size = sum(map(len, values)) / 1e6
            rates.append(size / float(np.median(time_runs(_hash_all(family, values), runs))))
        yield Throughput(family, words=rates[0], blocks=rates[1])
    numbers, out = splitmix64(1, 100_000) % np.uint64(PRIME), np.empty(100_000, np.uint64)
    kernels.affine_hashes(numbers, np.uint64(3), np.uint64(5), out)
    seconds = time_runs(
        lambda: kernels.affine_hashes(numbers, np.uint64(3), np.uint64(5), out), runs
    )
    yield Throughput(AFFINE, numbers.nbytes / 1e6 / float(np.median(seconds)), None)


def _hash_all(family: str, values: list[bytes]) -> Callable[[], Any]:
    if family == SHA:
        return lambda: [hashlib.sha256(value).digest() for value in values]
    secret = HashKey(bytes(16)) if family == KEYED else None
    key = key_of(family, 0, secret)
    data, out = np.frombuffer(b"".join(values), np.uint8).copy(), np.empty(len(values), np.uint64)
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    hash_each(data, offsets, key, out)
    return lambda: hash_each(data, offsets, key, out)


def measure_avalanche(samples: int, size: int = 8) -> Iterator[Avalanche]:
    """Yields the avalanche of every family. Each bit of random inputs is flipped once.

    Args:
        size: Size of an input in bytes.
    """
    rng = random.Random(1)
    inputs = [rng.randbytes(size) for _ in range(samples)]
    for family in (*FAMILIES, SHA, AFFINE):
        flips = np.empty((8 * size, 64))
        before = _hash_values(family, inputs)
        for bit in range(8 * size):
            turned = [
                (int.from_bytes(value, "little") ^ (1 << bit)).to_bytes(size, "little")
                for value in inputs
            ]
            changed = before ^ _hash_values(family, turned)
            flips[bit] = [(changed >> np.uint64(j) & np.uint64(1)).mean() for j in range(64)]
        width = 61 if family == AFFINE else 64
        rows = flips[:width, :width]
        yield Avalanche(family, float(rows.mean()), float(np.abs(rows - 0.5).max()))


def _hash_values(family: str, values: list[bytes]) -> np.ndarray:
    if family != AFFINE:
        return family_hash(family)(values, 7)
    out = np.empty(len(values), np.uint64)
    numbers = np.array(
        [int.from_bytes(value, "little") for value in values], np.uint64
    ) & np.uint64(PRIME)
    a, b = splitmix64(7, 2) % np.uint64(PRIME)
    kernels.affine_hashes(numbers, a, b, out)
    return out


def compare_hashes(trials: int = 200, samples: int = 2000, runs: int = 5) -> HashComparison:
    """Compares all families and schemes. The number of trials decides the duration."""
    return HashComparison(
        throughput=list(measure_throughput(runs)),
        accuracy=list(measure_accuracy(trials)),
        avalanche=list(measure_avalanche(samples)),
    )


def main(arguments: list[str] | None = None) -> None:
    """Prints the comparison as three tables, or as JSON."""
    parser = argparse.ArgumentParser(description="Compare hash families and MinHash schemes.")
    parser.add_argument("--trials", type=int, default=200, help="pairs of sets for each estimate")
    parser.add_argument("--samples", type=int, default=2000, help="inputs whose bits are flipped")
    parser.add_argument("--runs", type=int, default=5, help="runs of each rate; the median counts")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if min(given.trials, given.samples, given.runs) < 2:
        parser.error("--trials, --samples and --runs must be at least 2")
    comparison = compare_hashes(given.trials, given.samples, given.runs)
    if given.json:
        print(json.dumps(comparison.to_dict(), indent=2))
        return
    console = Console()
    rates = [
        (row.family, f"{row.words:,.0f}", "" if row.blocks is None else f"{row.blocks:,.0f}")
        for row in comparison.throughput
    ]
    names = ("family", "words MB/s", "1 KiB blocks MB/s")
    console.print(text_table("Throughput, one thread", names, rates))
    estimates = [
        (
            row.family,
            row.scheme,
            row.sets,
            f"{row.bias:+.4f} ± {row.bias_error:.4f}",
            f"{row.variance:.2f}",
        )
        for row in comparison.accuracy
    ]
    title = "Estimate of Jaccard similarity 1/2, k = 128"
    columns = ("family", "scheme", "sets", "bias", "variance / theory")
    console.print(text_table(title, columns, estimates))
    flips = [(row.family, f"{row.mean:.4f}", f"{row.worst:.3f}") for row in comparison.avalanche]
    title = "Avalanche, 8-byte inputs (0.5 is ideal)"
    console.print(text_table(title, ("family", "mean flip rate", "worst bias"), flips))


if __name__ == "__main__":
    main()
