"""Invented names and words, which are the same on every machine."""

import random
from collections.abc import Sequence
from typing import TypeVar

Word = TypeVar("Word")

ONSETS = (
    "b", "br", "c", "ch", "cl", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p",
    "pr", "r", "s", "sh", "st", "t", "th", "tr", "v", "w", "wh", "y",
)  # fmt: skip
VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "ee", "ie", "oo", "ou")
CODAS = ("", "", "n", "r", "l", "s", "t", "m", "ck", "nd", "rt", "ng", "ll", "sk", "rn")
ENDINGS = ("son", "ley", "ton", "man", "field", "er", "well", "ford", "berg", "ski", "es", "a", "")

GIVEN_NAMES = (
    "james", "mary", "john", "patricia", "robert", "jennifer", "michael", "linda", "william",
    "elizabeth", "david", "barbara", "richard", "susan", "joseph", "jessica", "thomas", "sarah",
    "charles", "karen", "daniel", "lisa", "matthew", "nancy", "anthony", "betty", "mark", "sandra",
    "steven", "ashley", "paul", "emily", "andrew", "kimberly", "joshua", "margaret", "kevin",
    "donna", "brian", "michelle", "george", "carol", "edward", "amanda", "ronald", "melissa",
    "timothy", "deborah", "jason", "stephanie", "ryan", "rebecca", "jacob", "laura", "nicholas",
    "helen", "jonathan", "cynthia", "sophie", "lachlan", "isabella", "mitchell", "chloe", "ethan",
    "ruby", "noah", "zoe", "caitlin", "hamish", "imogen", "benjamin", "madeline", "joel", "bianca",
)  # fmt: skip
SCIENCE = (
    "adaptive", "approximate", "automatic", "bayesian", "bounded", "clustering", "complexity",
    "compression", "concurrent", "consistency", "databases", "decision", "declarative",
    "dependency", "detection", "deterministic", "distributed", "dynamic", "efficient", "embedded",
    "encoding", "estimation", "evaluation", "evolutionary", "execution", "extraction", "feature",
    "filtering",
    "formal", "functional", "fuzzy", "games", "generalized", "genetic", "geometric", "grammars",
    "graphs", "hashing", "heterogeneous", "heuristic", "hierarchical", "hybrid", "incremental",
    "indexing", "induction", "inference", "integration", "interactive", "iterative", "joins",
    "kernels", "knowledge", "languages", "large", "learning", "linear", "locality", "logic",
    "machines", "maintenance", "management", "markov", "matching", "memory", "mining", "mobile",
    "modeling", "monitoring", "multidimensional", "networks", "neural", "noise", "object",
    "optimal", "optimization", "parallel", "partial", "pattern", "performance", "planning",
    "policies", "prediction", "probabilistic", "processing", "programs", "protocols", "pruning",
    "queries", "ranking", "reasoning", "recognition", "recursive", "reinforcement", "relational",
    "reliable", "replication", "retrieval", "robust", "routing", "sampling", "scalable",
    "scheduling", "schemas", "search", "secure", "selection", "semantic", "sequential",
    "similarity", "simulation", "spatial", "speech", "statistical", "storage", "streams",
    "structures", "supervised", "symbolic", "synthesis", "systems", "temporal", "text", "theory",
    "transactions", "transformation", "trees", "uncertain", "unsupervised", "verification",
    "views", "virtual", "visual", "warehouses", "wavelets", "wireless", "workflow",
)  # fmt: skip
"""Words of titles in computer science."""


def invent_words(seed: int, count: int, endings: Sequence[str] = ENDINGS) -> tuple[str, ...]:
    """Returns distinct words that can be pronounced.

    Args:
        seed: Seed of the words.
        count: Number of words.
        endings: Ends of the words.
    """
    rng = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = rng.choice((1, 1, 2))
        stem = "".join(
            rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(syllables)
        )
        words[stem + rng.choice(endings)] = None
    return tuple(words)


def choose_frequent(rng: random.Random, words: Sequence[Word]) -> Word:
    """Returns a word, of which the first ones are more frequent than the last ones.

    The position is the square of a uniform number, so that names repeat as those of people do.

    Args:
        rng: Source of random numbers.
        words: Words, the most frequent ones first.
    """
    return words[int(rng.random() ** 2 * len(words))]
