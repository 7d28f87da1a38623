"""The hash laboratory: families of base hashes and MinHash schemes compared with the theory of fully random functions.

What is measured, for each family and scheme: throughput; bias and variance of the Jaccard estimate, on words of real text and
on structured sets (consecutive integers, arithmetic progressions) whose regularity a weak hash carries into its minima;
avalanche. References: affine functions (a·x + b) mod 2⁶¹ − 1, 2-independent, as most libraries use them, and SHA-256, as
good as random.

Sources: Broder, *On the resemblance and containment of documents* (1997): variance J(1 − J)/k of k random functions. Pătraşcu,
Thorup, *On the k-independence required by linear probing and minwise independence* (ICALP 2010) and Thorup, *Bottom-k and
priority sampling, set similarity and subset sums with minimal independence* (STOC 2013): 2-independent functions are biased on
structured sets. Dahlgaard, Knudsen, Thorup, *Fast similarity sketching* (FOCS 2017): the rounds of `binned`. Estébanez et al.,
*Performance of the most common non-cryptographic hash functions* (Software: Practice and Experience, 2014): avalanche.
"""

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from nearkin.hashing.families import hash_values, key_of
from nearkin.hashing.kernels import hash_each
from nearkin.keys import HashKey
from nearkin.lab import kernels
from nearkin.lab.bench import seconds_of
from nearkin.lab.demo_corpus import installation_folders, source_files
from nearkin.sketch.minhash import SCHEMES, estimate, splitmix64
from nearkin.spec import FAMILIES, KEYED, SEED_BITS

K = 128
SIZE = 500
PRIME = (1 << 61) - 1
SHA, AFFINE = "sha256", "affine"
WORDS = 20_000
BLOCK = 1024
NUMBER = 8
"""Bytes of an integer that is an element."""
Hasher = Callable[[list[bytes], int], np.ndarray]


@dataclass(frozen=True)
class Throughput:
    """How fast a family hashes, in one thread.

    Attributes:
        family: The base hash.
        words: MB/s over the words of real text, each hashed by itself.
        blocks: MB/s over blocks of 1 KiB; None for affine functions, which take numbers.
    """

    family: str
    words: float
    blocks: float | None


@dataclass(frozen=True)
class Accuracy:
    """The estimate against the theory.

    Attributes:
        family: The base hash.
        scheme: Of MinHash.
        sets: What was hashed.
        bias: Mean of estimate − J.
        bias_error: Standard error of the bias.
        variance: Of the estimate, over J(1 − J)/k.
    """

    family: str
    scheme: str
    sets: str
    bias: float
    bias_error: float
    variance: float


@dataclass(frozen=True)
class Avalanche:
    """Flip one bit of the input: how many bits of the hash flip.

    Attributes:
        family: The base hash.
        mean: Share of bits that flip; 0.5 is right.
        worst: The largest distance from 0.5 over all pairs of an input and an output bit.
    """

    family: str
    mean: float
    worst: float


class Lab(NamedTuple):
    """Everything that was measured."""

    throughput: list[Throughput]
    accuracy: list[Accuracy]
    avalanche: list[Avalanche]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {name: [asdict(row) for row in rows] for name, rows in self._asdict().items()}


def family_hash(family: str) -> Hasher:
    """The values' hashes under a seed (or a key made of it), uint64."""

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


def words_of_text() -> list[bytes]:
    """Distinct words of this Python's standard library, in the order of their occurrence."""
    found: dict[str, None] = {}
    for _, path in source_files(installation_folders()[:1]):
        found.update(dict.fromkeys(path.read_text("utf-8", "replace").lower().split()))
        if len(found) >= WORDS:
            break
    return [word.encode() for word in list(found)[:WORDS]]


class Sets(NamedTuple):
    """Two sets of a trial, and their similarity."""

    a: list[bytes]
    b: list[bytes]
    similarity: float


def as_bytes(numbers: range) -> list[bytes]:
    """Integers as 8 bytes each."""
    return [x.to_bytes(NUMBER, "little") for x in numbers]


def trial_sets(kind: str, trial: int, words: list[bytes]) -> Sets:
    """Two sets of SIZE elements that share two thirds of them (J = 1/2)."""
    rng, shift = random.Random(trial), SIZE // 3
    total = SIZE + shift
    if kind == "words":
        chosen = rng.sample(words, total)
    else:
        step = 1 if kind == "consecutive integers" else rng.randrange(2, 1 << 20)
        start = rng.randrange(1 << 32)
        chosen = as_bytes(range(start, start + step * total, step))
    return Sets(chosen[:SIZE], chosen[shift:], (SIZE - shift) / total)


KINDS = ("words", "consecutive integers", "arithmetic progressions")


def minhash_estimate(family: str, scheme: str, sets: Sets, seed: int) -> float:
    """Of one trial."""
    if family == AFFINE:
        return affine_estimate(sets, seed)
    hasher, functions = family_hash(family), SCHEMES[scheme](K, 1)
    signatures = []
    for values in (sets.a, sets.b):
        slots = np.full(K, 0xFFFFFFFF, np.uint32)
        functions.update(hasher(values, seed), slots)
        signatures.append(slots)
    return estimate(*signatures)


def affine_estimate(sets: Sets, seed: int) -> float:
    """k affine functions of numbers: integers themselves, words by their XXH3."""
    a, b = (splitmix64(seed, K, first) % np.uint64(PRIME) for first in (0, K))
    minima = []
    for values in (sets.a, sets.b):
        integers = all(len(value) == NUMBER for value in values)
        numbers = (
            np.frombuffer(b"".join(values), "<u8") if integers else family_hash("xxh3")(values, 0)
        )
        numbers = numbers.astype(np.uint64) % np.uint64(PRIME)
        out = np.empty(K, np.uint64)
        kernels.affine_minhash(numbers, np.maximum(a, np.uint64(1)), b, out)
        minima.append(out)
    return float(np.mean(minima[0] == minima[1]))


def accuracies(trials: int) -> Iterator[Accuracy]:
    """Every family under every scheme, and the references, over the kinds of sets."""
    words = words_of_text()
    entrants = [(family, scheme) for family in (*FAMILIES, SHA) for scheme in sorted(SCHEMES)]
    for family, scheme in [*entrants, (AFFINE, "classic")]:
        for kind in KINDS:
            sets = [trial_sets(kind, trial, words) for trial in range(trials)]
            found = np.array(
                [minhash_estimate(family, scheme, s, 1 + t) for t, s in enumerate(sets)]
            )
            errors = found - np.array([s.similarity for s in sets])
            j = sets[0].similarity
            spread = float(errors.var(ddof=1))
            yield Accuracy(
                family,
                scheme,
                kind,
                float(errors.mean()),
                float(np.sqrt(spread / trials)),
                spread / (j * (1 - j) / K),
            )


def throughputs(runs: int) -> Iterator[Throughput]:
    """Medians of several runs."""
    words, blocks = words_of_text(), [random.Random(1).randbytes(BLOCK) for _ in range(2000)]
    for family in (*FAMILIES, SHA):
        rates = []
        for values in (words, blocks):
            size = sum(map(len, values)) / 1e6
            rates.append(size / float(np.median(seconds_of(_hash_all(family, values), runs))))
        yield Throughput(family, *rates)
    numbers, out = splitmix64(1, 100_000) % np.uint64(PRIME), np.empty(100_000, np.uint64)
    kernels.affine_hashes(numbers, np.uint64(3), np.uint64(5), out)
    seconds = seconds_of(
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


def avalanches(samples: int, size: int = 8) -> Iterator[Avalanche]:
    """Every input bit of random inputs is flipped once."""
    rng = random.Random(1)
    inputs = [rng.randbytes(size) for _ in range(samples)]
    for family in (*FAMILIES, SHA, AFFINE):
        flips = np.empty((8 * size, 64))
        before = _values(family, inputs)
        for bit in range(8 * size):
            turned = [
                (int.from_bytes(value, "little") ^ (1 << bit)).to_bytes(size, "little")
                for value in inputs
            ]
            changed = before ^ _values(family, turned)
            flips[bit] = [(changed >> np.uint64(j) & np.uint64(1)).mean() for j in range(64)]
        width = 61 if family == AFFINE else 64
        rows = flips[:width, :width]
        yield Avalanche(family, float(rows.mean()), float(np.abs(rows - 0.5).max()))


def _values(family: str, values: list[bytes]) -> np.ndarray:
    if family != AFFINE:
        return family_hash(family)(values, 7)
    out = np.empty(len(values), np.uint64)
    numbers = np.array(
        [int.from_bytes(value, "little") for value in values], np.uint64
    ) & np.uint64(PRIME)
    a, b = splitmix64(7, 2) % np.uint64(PRIME)
    kernels.affine_hashes(numbers, a, b, out)
    return out


def laboratory(trials: int = 200, samples: int = 2000, runs: int = 5) -> Lab:
    """Everything; the trials decide how long it takes."""
    return Lab(list(throughputs(runs)), list(accuracies(trials)), list(avalanches(samples)))
