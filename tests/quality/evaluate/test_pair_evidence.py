"""The evidence about pairs of texts, and the reasons to doubt that one is a copy of the other."""

import random

import numpy as np
import pyarrow as pa
import pytest

from nearkin.quality.evaluate.doubtful_removals import Reason
from nearkin.quality.evaluate.pair_evidence import Background, PairEvidence, prepare_texts
from nearkin.settings.spec import MASK_STEPS, Spec
from nearkin.stages.shingle.readable import shingle_texts


def compare(
    removed: str, kept: str, others: list[str], normalise: tuple[str, ...] = ()
) -> PairEvidence:
    """Returns the evidence about a pair of cluster 0. The others are in clusters of their own."""
    texts = prepare_texts(pa.array([removed, kept, *others], pa.large_string()), normalise)
    background = Background(texts[2:], np.arange(1, len(others) + 1), len(texts))
    return background.compare(texts[:1], texts[1:2], np.array([0]))[0]


OTHERS = [
    "anna miller 12 oak street",
    "peter jones 7 mill lane",
    "mary brown 9 church road",
    "peter smith 1964 high street",
    "john smith 1960 park avenue",
]


@pytest.mark.parametrize(
    ("removed", "kept", "reason"),
    [
        ("anna brown 5 mill lane", "peter brown 5 mill lane", Reason.REPLACED),
        ("house election 1960", "house election 1964", Reason.REPLACED),
        ("anna browne 5 mill lane", "anna brown 5 mill lane", None),
        ("anna brown 5 mill ln", "anna brown 5 mill lane", None),
        ("anna brown 5 mill", "anna brown 5 mill lane", None),
        ("Anna BROWN 5 Mill Lane", "anna brown 5 mill lane", None),
        ("anna zzyzx qwvx 5 mill", "anna kjhgf 5 mill mnbvc", Reason.DIFFERING),
        ("fluoxetine", "paroxetine", Reason.UNLIKE),
    ],
)
def test_reason_follows_from_the_words_by_which_texts_differ(
    removed: str, kept: str, reason: Reason | None
) -> None:
    assert Reason.of_evidence(compare(removed, kept, OTHERS * 3)) is reason


def test_usual_words_tell_variants_apart_however_little_information_they_have() -> None:
    rare = "abcdefgh"
    others = [
        f"{first * 7} {second * 7} shirt {size} {colour}"
        for first in rare
        for second in rare
        for size in ("small", "large")
        for colour in ("black", "white")
    ]
    evidence = compare("xyzzy plugh shirt small black", "xyzzy plugh shirt large black", others)
    assert Reason.of_evidence(evidence) is Reason.REPLACED
    # one usual word among many may be an edit
    longer = " ".join(rare[row % 8] * (8 + row) for row in range(20))
    edited = compare(f"{longer} small black", f"{longer} large black", others)
    assert Reason.of_evidence(edited) is None


def test_words_that_tell_many_pairs_apart_are_qualifiers() -> None:
    names = [f"{first}{second}{first} {second * 3} lamp" for first in "abcd" for second in "xyz"]
    removed = prepare_texts(pa.array([f"{name} pro" for name in names], pa.large_string()), ())
    background = Background(removed, np.arange(12), 24)
    evidence = background.compare(removed, names, np.arange(12))
    assert {Reason.of_evidence(pair) for pair in evidence} == {Reason.QUALIFIED}
    # what most pairs have in common is left out by mistake
    kept = [f"{name} pro" for name in names[:5]] + names[5:]
    evidence = background.compare(removed, kept, np.arange(12))
    assert evidence[-1].qualified == 0.0


def test_words_of_a_pair_begin_with_those_that_other_documents_have() -> None:
    evidence = compare("xanadu anna brown 5", "peter brown 5 yggdrasil", OTHERS)
    assert evidence.removed_words == ("anna", "xanadu")
    assert evidence.kept_words == ("peter", "yggdrasil")


def test_masked_values_do_not_differ() -> None:
    removed, kept = "job 17 took 35 s on 10.0.0.1", "job 94 took 88 s on 10.0.0.2"
    others = [f"job {number} took {number + 1} s on 10.0.0.{number}" for number in range(100)]
    assert Reason.of_evidence(compare(removed, kept, others)) is Reason.REPLACED
    masked = compare(removed, kept, others, MASK_STEPS)
    assert (masked.common, masked.replaced, masked.differing) == (1.0, 0.0, 0.0)
    folded = compare("part 17 of it", "part 94 of it", others, ("digits",))
    assert folded.common == 1.0


def test_chance_is_the_count_of_other_documents_that_are_as_near() -> None:
    rng = random.Random(5)
    # names of which each has many neighbours
    names = ["".join(rng.choices("abc", k=7)) + " thing of a kind" for _ in range(400)]
    near = compare(names[0], names[1], names[2:])
    copy = compare(f"{names[0]}x", names[0], names[2:])
    assert near.chance > 0
    assert copy.chance < near.chance - 2
    assert Reason.of_evidence(near) is not None


def test_similarity_to_the_background_is_that_of_sets() -> None:
    texts = [*OTHERS, "anna brown 5 mill lane", ""]
    background = Background(texts, np.arange(len(texts)), len(texts))
    spec = Spec(unit="chars", n=3)
    sets = [set(shingle_texts(text, spec)) for text in texts]
    weights = {
        shingle: np.log((len(texts) + 1) / (sum(shingle in other for other in sets) + 0.5))
        for shingle in set().union(*sets)
    }

    def weigh(shingles: set[str]) -> float:
        return sum(weights[shingle] for shingle in shingles)

    for text, own in zip(texts, sets, strict=True):
        hashes = background._build_sets([text]).hashes
        expected = [weigh(own & other) / max(weigh(own | other), 1e-3) for other in sets]
        np.testing.assert_allclose(background._postings.compare(hashes), expected, rtol=1e-9)
        expected_pair = weigh(own & sets[0]) / max(weigh(own | sets[0]), 1e-3)
        first = background._build_sets([texts[0]]).hashes
        assert background._postings.compare_sets(hashes, first) == pytest.approx(expected_pair)


def test_scripts_without_spaces_differ_by_characters() -> None:
    others = [f"会議は{day}に大阪で開かれます。参加者は{day}人です。" for day in "日月火水木金土"]
    same = compare(
        "会議は月曜に東京で開かれる予定です。", "会議は月曜に東京で開かれる予定でした。", others
    )
    other = compare("会議は火曜に大阪で開かれる", "会議は月曜に東京で開かれる", others)
    assert Reason.of_evidence(same) is None
    assert set(other.removed_words) == {"火", "大", "阪"}


class Counted:
    """Texts of which only the number is known."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count


def test_texts_of_a_large_cluster_are_not_searched_for_each_word() -> None:
    draw = np.random.default_rng(1)
    words = [f"word{number}" for number in range(2000)]
    texts = [" ".join(draw.choice(words, 300)) for _ in range(400)]
    clusters = np.zeros(len(texts), np.int64)
    background = Background(texts, clusters, len(texts))
    before = background.compare(texts[:1], texts[1:2], clusters[:1])
    background._words = Counted(len(texts))  # type: ignore[assignment]
    assert background.compare(texts[:1], texts[1:2], clusters[:1]) == before
    # all documents are of one cluster, so that no other one has a word
    assert before[0].replaced == 0
