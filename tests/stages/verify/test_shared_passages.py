"""The longest passages that two texts share, compared with all runs of words."""

import numpy as np

from nearkin.stages.verify.shared_passages import LEAST_TOKENS, find_shared_passages


def longest_common_run(a: list[str], b: list[str]) -> int:
    lengths = np.zeros((len(a) + 1, len(b) + 1), int)
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            if left == right:
                lengths[i + 1, j + 1] = lengths[i, j] + 1
    return int(lengths.max())


def test_first_passage_is_the_longest_and_equal_in_both_texts() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        words = [list(rng.choice(["a", "b", "c"], 60)) for _ in range(2)]
        passages = find_shared_passages(" ".join(words[0]), " ".join(words[1]), 3)
        longest = longest_common_run(*words)
        assert [passage.tokens for passage in passages][:1] == [longest] * (longest >= LEAST_TOKENS)
        for passage in passages:
            assert passage.first == passage.second
            assert len(passage.first.split()) == passage.tokens
        sizes = [passage.tokens for passage in passages]
        assert sizes == sorted(sizes, reverse=True)


def test_passages_are_quoted_as_each_text_writes_them() -> None:
    shared = "die gäste lassen ihre taschen bitte am eingang zurück"
    a = f"Hier: {shared.title()}! Und dann noch etwas."
    b = f"X {shared.upper().replace(' ', ', ')}"
    (passage,) = find_shared_passages(a, b, 3)
    assert passage == (9, shared.title(), shared.upper().replace(" ", ", "))


def test_texts_without_a_long_common_run_share_no_passage() -> None:
    assert find_shared_passages("", "", 3) == []
    assert find_shared_passages("one two three", "one two three", 3) == []
