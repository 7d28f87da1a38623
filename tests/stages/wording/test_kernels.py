"""Wordings are read and compared as by an oracle in plain Python."""

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from nearkin.stages.wording import hash_wordings, kernels, read_wordings
from nearkin.stages.wording.negations import negation_tokens
from tests.stages.wording import oracle

PIECES = (
    *(
        "a",
        "to",
        "not",
        "Paid",
        "PAID",
        "straße",
        "été",
        "e\u0301te\u0301",
        "ſ",
        "ﬁn",
        "snake_case",
    ),
    *("Ｆｕｌｌ", "日本", "カナ", "ไทย", "ⁿ", "don't", "e", "E", "1", "12", "0", "500"),
    *(
        "٣",
        "५",
        "５",
        "²",
        "½",
        "Ⅳ",
        "①",
        "-",
        "−",
        "–",
        "—",
        "‑",
        "+",
        "±",
        "/",
        "⁄",
        ":",
        "'",
        "’",
    ),
    *(
        ".",
        ",",
        "..",
        "!",
        "?",
        "…",
        "。",
        "(",
        ")",
        "«",
        '"',
        "$",
        "€",
        "%",
        "°",
        "😀",
        "&",
        "#",
        "*",
    ),
    *("=", "<", "@", "\u00ad", "\u200d", "\ufe0f", " ", " ", " ", "\t", "\u00a0", "\n", "\r\n"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
KINDS = {int(kernels.WORD): "word", int(kernels.NUMBER): "number"}
KINDS[int(kernels.SYMBOL_TOKEN)] = "symbol"


def read(texts: list[str]) -> list[list[int]]:
    tokens, counts = read_wordings(pa.array(texts, pa.large_string()))
    return [part.tolist() for part in np.split(tokens, np.cumsum(counts)[:-1])]


def said_of(text: str, other: str) -> bool:
    """Returns whether the second text says all that the first one says."""
    tokens, counts = read_wordings(pa.array([text, other], pa.large_string()))
    starts = np.concatenate([[0], np.cumsum(counts)])
    out = np.empty(1, bool)
    kernels.find_said(np.array([0]), np.array([1]), starts, tokens, negation_tokens(), out)
    return bool(out[0])


@given(st.lists(TEXTS, min_size=1, max_size=3))
@example(["5 -$3 −$4 −½ .5 ..5 1.5e-3 1e 3E+4x a-5 a - 5", "x " * 400])
def test_tokens_are_those_of_the_oracle(texts: list[str]) -> None:
    contents: dict[tuple[str, str], int] = {}
    for text, tokens in zip(texts, read(texts), strict=True):
        expected = oracle.read_wording(text)
        begins = [bool(token & int(kernels.BEGINS)) for token in tokens]
        is_attached = [bool(token & int(kernels.ATTACHED)) for token in tokens]
        kinds = [KINDS[token & int(kernels.TYPE)] for token in tokens]
        assert [token.kind for token in expected] == kinds
        assert [token.begins for token in expected] == begins
        assert [token.is_attached for token in expected] == is_attached
        for token, said in zip(tokens, expected, strict=True):
            hashed = token & int(kernels.SAID)
            assert contents.setdefault(said[:2], hashed) == hashed
    assert len(set(contents.values())) == len(contents)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_hashes_are_equal_if_numbers_or_tokens_are(texts: list[str]) -> None:
    hashes = hash_wordings(pa.array(texts, pa.large_string()))
    for found, read_facts in (
        (hashes.numbers, oracle.numbers),
        (hashes.wordings, lambda text: [token[:2] for token in oracle.read_wording(text)]),
    ):
        facts = [read_facts(text) for text in texts]
        for row, fact in zip(found, facts, strict=True):
            expected = [fact == other for other in facts]
            assert (found == row).all(axis=1).tolist() == expected


SHORT_TEXTS = st.lists(
    st.sampled_from(
        ["a", "bb", "long", "not", "b b", "1", "(1)", "−", "$", "%", ". ", "! ", "\n", " ", " "]
    ),
    max_size=9,
)


@given(SHORT_TEXTS, SHORT_TEXTS, SHORT_TEXTS)
def test_a_text_says_all_of_another_one_as_for_the_oracle(
    before: list[str], middle: list[str], after: list[str]
) -> None:
    removed = " ".join(middle)
    for kept in (
        "".join([*before, *middle, *after]),
        " ".join([*before, *middle, *after]),
        "\n".join([*middle[:3], *before, *middle[3:]]),
        ". ".join([*middle[:3], *before, *middle[3:]]),
        " ".join(before),
    ):
        assert said_of(removed, kept) == oracle.says_all(kept, removed), (removed, kept)
