"""Tests of the kernels that generate documents, whose results are compared with plain Python."""

import numpy as np
import pytest

from nearkin.quality.lab.kernels import (
    COSTS,
    DELETE,
    INSERT,
    MISSPELL,
    SENTENCE,
    SUBSTITUTE,
    SWAP,
    TYPO,
    WORD,
    compose_words,
    edit_words,
    permute_one,
    random_below,
    render_tokens,
    start_stream,
    swap_sentences,
)

U64 = np.uint64
FREQUENCIES = np.array([0, 0, 1, 2], np.uint32)


def sentences_of(tokens: np.ndarray) -> list[list[int]]:
    """Returns the numbers of the words of each sentence."""
    sentences: list[list[int]] = [[]]
    for token in tokens.tolist():
        sentences[-1].append(token & int(WORD))
        if token & int(SENTENCE):
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


@pytest.mark.parametrize("n", [1, 2, 3, 16, 100, 1000])
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_permutation_has_each_number_once(n: int, seed: int) -> None:
    bits = max(1, (max(n - 1, 1).bit_length() + 1) // 2)
    images = [int(permute_one(U64(i), U64(n), U64(bits), U64(seed))) for i in range(n)]
    assert sorted(images) == list(range(n))
    assert n < 16 or images != list(range(n))


@pytest.mark.parametrize("bound", [1, 2, 7, 2**31])
def test_random_numbers_are_below_their_bound_and_uniform(bound: int) -> None:
    """The mean of n uniform numbers is within five standard errors, bound / √(12n)."""
    drawn = [int(random_below(U64(state), U64(bound))) for state in range(2000)]
    assert 0 <= min(drawn) <= max(drawn) < bound
    assert abs(np.mean(drawn) - (bound - 1) / 2) <= 5 * bound / np.sqrt(12 * 2000)


def test_streams_of_different_documents_are_different() -> None:
    states = {
        int(start_stream(U64(seed), U64(group), U64(member)))
        for seed in range(5)
        for group in range(10)
        for member in range(10)
    }
    assert len(states) == 500


def test_sentences_have_4_to_19_words() -> None:
    out = np.empty(5000, np.uint32)
    assert compose_words(U64(1), U64(5000), FREQUENCIES, out) == 5000
    lengths = [len(sentence) for sentence in sentences_of(out)][:-1]
    assert (min(lengths), max(lengths)) == (4, 19)
    share = np.mean((out & WORD) == 0)
    assert abs(share - 0.5) < 5 * np.sqrt(0.25 / 5000)


@pytest.mark.parametrize("at", range(7))
def test_sentence_is_exchanged_with_the_next_one(at: int) -> None:
    """The last sentence has no next one, so nothing changes."""
    tokens = np.array([1, 2, 3, 4, 5, 6, 7], np.uint32)
    tokens[[1, 4, 6]] |= SENTENCE
    before = sentences_of(tokens)
    swapped = swap_sentences(tokens, U64(7), U64(at), np.empty(7, np.uint32))
    position = 0 if at < 2 else 1 if at < 5 else 2
    want = list(before)
    if position < 2:
        want[position : position + 2] = [before[position + 1], before[position]]
    assert swapped == (position < 2)
    assert sentences_of(tokens) == want


@pytest.mark.parametrize("operation", [SUBSTITUTE, DELETE, INSERT, SWAP, MISSPELL])
@pytest.mark.parametrize("budget", [4, 5, 12, 60])
def test_operations_cost_no_more_than_the_budget(operation: int, budget: int) -> None:
    count = 40
    tokens = np.zeros(count + budget, np.uint32)
    tokens[:count] = np.arange(100, 100 + count)
    tokens[9:count:10] |= SENTENCE
    before = tokens[:count].copy()
    frequencies = np.array([7], np.uint32)
    operations = np.array([operation], np.uint8)
    spare = np.empty(count, np.uint32)
    after = int(edit_words(tokens, U64(count), U64(3), budget, operations, frequencies, spare))
    edits = 0
    rest = budget
    while rest >= 5:
        swaps = operation == SWAP and rest < COSTS[SWAP]
        rest -= COSTS[SUBSTITUTE if swaps else operation]
        edits += 1
    words = (tokens[:after] & WORD).tolist()
    kept = [word for word in words if word != 7]
    assert after == count + {DELETE: -edits, INSERT: edits}.get(operation, 0)
    if operation == MISSPELL:
        assert words == (before & WORD).tolist()
        assert 0 < np.count_nonzero((tokens[:after] >> TYPO) & np.uint32(127)) <= edits or not edits
    elif operation == SWAP:
        assert set(kept) <= set((before & WORD).tolist())
        assert len(kept) >= count - edits
    else:
        assert kept == [word for word in (before & WORD).tolist() if word in set(kept)]
        assert count - edits <= len(kept) <= count


def test_tokens_are_written_as_words_and_sentences() -> None:
    words = np.frombuffer("catéAB".encode(), np.uint8)
    starts = np.array([0, 3, 5, 7], np.int64)
    tokens = np.array([0, 1 | SENTENCE, 2, 0 | np.uint32(1) << TYPO], np.uint32)
    out = np.zeros(40, np.uint8)
    end = int(render_tokens(tokens, U64(4), words, starts, out, U64(2)))
    assert out[2:end].tobytes().decode() == "cat é. AB cct."
