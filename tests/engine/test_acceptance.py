"""The local engine accepts pairs as a slow and obvious oracle does."""

import itertools
import random
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.document_facts import mix_hashes
from nearkin.errors import UsageError
from nearkin.settings.acceptance import Differ, Expression, NumbersEqual, SaysAll, parse_expression
from nearkin.settings.acceptance.expression import Number, collect_predicates
from tests.settings.acceptance.strategies import holds
from tests.stages.wording import oracle as wording

WORDS = [f"w{number}x" for number in range(400)]


class Oracle:
    """The numbers of pairs of texts, by sets of word pairs in Python."""

    def __init__(self, texts: Sequence[str], languages: Sequence[str | None]) -> None:
        self.texts = texts
        self.languages = languages
        self.tokens = [text.lower().split() for text in texts]
        self.sets = [set(itertools.pairwise(tokens)) for tokens in self.tokens]
        self.numbers_of = [wording.numbers(text) for text in texts]
        self.wordings = [[said[:2] for said in wording.read_wording(text)] for text in texts]

    def numbers(
        self, removed: int, kept: int, expression: Expression
    ) -> dict[object, float | bool]:
        shared = len(self.sets[removed] & self.sets[kept])
        pair: dict[object, float | bool] = {
            Number.JACCARD: shared / len(self.sets[removed] | self.sets[kept]),
            Number.CONTAINMENT: shared / len(self.sets[removed]),
            Number.CONTAINMENT_OF_KEPT: shared / len(self.sets[kept]),
            Number.LENGTH_RATIO: len(self.texts[removed]) / len(self.texts[kept]),
            Number.WITNESS: self.witness(removed, kept) if "witness" in str(expression) else 0,
        }
        languages = (self.languages[removed], self.languages[kept])
        for predicate in collect_predicates(expression):
            if isinstance(predicate, SaysAll):
                pair[predicate] = wording.says_all(self.texts[kept], self.texts[removed])
            elif isinstance(predicate, NumbersEqual):
                pair[predicate] = self.numbers_of[removed] == self.numbers_of[kept]
            elif isinstance(predicate, Differ):
                pair[predicate] = None not in languages and len(set(languages)) == 2
            else:
                pair[predicate] = len(set(languages)) == 1
        return pair

    def witness(self, removed: int, kept: int) -> int:
        matcher = SequenceMatcher(None, self.tokens[removed], self.tokens[kept], autojunk=False)
        return matcher.find_longest_match().size

    def copy_key(self, document: int, expression: Expression) -> tuple[object, ...]:
        """Returns what exact duplicates share, as far as an expression mentions it."""
        text = str(expression)
        length = len(self.texts[document]) if "length" in text else None
        numbers = tuple(self.numbers_of[document]) if "numbers_equal" in text else None
        said = tuple(self.wordings[document]) if "says_all" in text else None
        language = self.languages[document] if "lang" in text else None
        return (tuple(self.tokens[document]), length, numbers, said, language)

    def keep_order(self) -> list[int]:
        """Returns the documents in the order of decreasing length, then of the ids."""
        return sorted(range(len(self.texts)), key=lambda n: (-len(self.texts[n]), n))

    def pairs(self, expression: Expression, order: Sequence[int]) -> list[tuple[int, int]]:
        """Returns the pairs (later, earlier) for which an expression holds, sorted.

        Accepted exact duplicates are represented by the first of them in keep order.

        Args:
            expression: The condition, of which the later document is the removed one.
            order: All documents, in the order that gives pairs their direction.
        """
        first_copies: dict[tuple[object, ...], int] = {}
        repeated = set()
        for document in self.keep_order():
            copied = first_copies.setdefault(self.copy_key(document, expression), document)
            is_accepted = holds(expression, self.numbers(document, copied, expression))
            if copied != document and is_accepted and "witness" not in str(expression):
                repeated.add(document)
        compared = [document for document in order if document not in repeated]
        return sorted(
            (later, earlier)
            for earlier, later in itertools.combinations(compared, 2)
            if self.sets[later] & self.sets[earlier]
            and holds(expression, self.numbers(later, earlier, expression))
        )

    def leaders(self, expression: Expression, known: Sequence[int] = ()) -> list[int]:
        """Returns the kept document of each, in the order of decreasing length, then of the ids.

        Accepted exact duplicates follow the first of them.

        Args:
            expression: The acceptance.
            known: Documents of a reference, which are kept.
        """
        first_copies: dict[tuple[object, ...], int] = {}
        order = [document for document in self.keep_order() if document not in known]
        leader = list(range(len(self.texts)))
        kept: list[int] = []
        for document in order:
            accepted = []
            in_reference = []
            for other in known:
                pair = self.numbers(document, other, expression)
                if self.sets[document] & self.sets[other] and holds(expression, pair):
                    differs = self.tokens[document] != self.tokens[other]
                    in_reference.append((differs, -float(pair[Number.JACCARD]), other))
            if in_reference:
                leader[document] = min(in_reference)[2]
                continue
            copied = first_copies.setdefault(self.copy_key(document, expression), document)
            is_accepted = holds(expression, self.numbers(document, copied, expression))
            if copied != document and is_accepted and "witness" not in str(expression):
                leader[document] = leader[copied]
                continue
            for candidate in kept:
                if not self.sets[document] & self.sets[candidate]:
                    continue
                pair = self.numbers(document, candidate, expression)
                if holds(expression, pair):
                    accepted.append(
                        (-float(pair[Number.JACCARD]), order.index(candidate), candidate)
                    )
            if accepted:
                leader[document] = min(accepted)[2]
            else:
                kept.append(document)
        return leader


def make_texts(count: int, seed: int) -> list[str]:
    """Returns base texts, and versions with additions, other numbers, changed words and letters."""
    generator = random.Random(seed)
    texts: list[str] = []
    while len(texts) < count:
        base = generator.sample(WORDS, 40)
        texts.append(" ".join([*base, "no", "12"]))
        texts.append(" ".join([*base, "no", generator.choice(["12", "13"])]).upper())
        texts.append(" ".join([*base, "no", generator.choice(["12", "13", "1 2"])]))
        addition = generator.sample(WORDS, generator.choice([5, 60, 200]))
        texts.append(" ".join([*base, "no", "12", *addition]))
        changed = [*base]
        changed[20] = "other"
        texts.append(" ".join([*changed, "no", "12"]))
    return texts[:count]


EXPRESSIONS = [
    "jaccard >= 0.8 and containment >= 0.98",
    "safe",
    "contained",
    "containment_of_kept >= 0.9",
    "jaccard >= 0.6 and not (numbers_equal and same(lang))",
    "containment >= 0.9 and same(lang)",
    "containment >= 0.9 and (same(lang) or numbers_equal)",
    "containment >= 0.9 and not differ(lang)",
    "jaccard >= 0.5 and (differ(lang) or not says_all)",
    "containment >= 0.5 and witness >= 41",
    "jaccard >= 0.5 and length_ratio > 0.97 and length_ratio < 1",
    "jaccard < 1 and containment >= 0.9",
    "jaccard >= 0.9 or (containment >= 0.95 and length_ratio <= 0.5)",
]


def removed_against(table: pa.Table) -> list[int]:
    return [int(cluster) for cluster in table["cluster"].to_pylist()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("banded", [False, True])
def test_documents_are_removed_as_by_an_oracle(
    expression: str, banded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if banded:
        monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
    texts = make_texts(60, seed=3)
    languages = [("de", "en", None)[number % 3] for number in range(len(texts))]
    table = {"text": texts, "lang": languages}
    result = nk.dedup(table, accept=expression, shingle="words:2", recall=0.999, k=256)
    oracle = Oracle(texts, languages)
    assert removed_against(result.clusters) == oracle.leaders(parse_expression(expression))


def hold_against(
    texts: Sequence[str], languages: Sequence[str | None], known: Sequence[int], **options: Any
) -> nk.results.DedupResult:
    """Deduplicates texts against some of them, whose ids are their positions."""

    def select(numbers: Sequence[int]) -> pa.Table:
        columns = {"text": texts, "lang": languages, "id": [f"{n:04}" for n in range(len(texts))]}
        return pa.table(columns).take(pa.array(numbers))

    new = [number for number in range(len(texts)) if number not in known]
    return nk.dedup(
        select(new),
        id="id",
        against=select(known),
        shingle="words:2",
        recall=0.999,
        k=256,
        **options,
    )


@pytest.mark.parametrize(
    ("expression", "banded"),
    [
        *((expression, True) for expression in EXPRESSIONS[1::2]),
        *(pytest.param(each, True, marks=pytest.mark.full) for each in EXPRESSIONS[::2]),
        *(pytest.param(each, False, marks=pytest.mark.full) for each in EXPRESSIONS),
    ],
)
def test_documents_are_removed_against_a_reference_as_by_an_oracle(
    expression: str, banded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if banded:
        monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
        monkeypatch.setattr("nearkin.engine.reference.SMALL_CORPUS", 0)
    texts = make_texts(60, seed=9)
    languages = [("de", "en", None)[number % 3] for number in range(len(texts))]
    known = [number for number in range(len(texts)) if number % 7 in (1, 2, 4)]
    result = hold_against(texts, languages, known, accept=expression)
    parsed = parse_expression(expression)
    oracle = Oracle(texts, languages)
    expected = oracle.leaders(parsed, known)
    rows = result.clusters.arrow.to_pylist()
    assert [int(row["cluster"]) for row in rows] == [expected[int(row["id"])] for row in rows]
    places = {row["matched_in"] for row in rows}
    assert "reference" in places
    removed = [(int(row["id"]), int(row["cluster"])) for row in rows if not row["kept"]]
    lost = [1 - oracle.numbers(a, b, parsed)[Number.CONTAINMENT] for a, b in removed]
    share = result.report_data.lost.total
    assert (share.removed, share.worst) == (len(lost), pytest.approx(max(lost)))
    assert share.mean == pytest.approx(sum(lost) / len(lost))


def test_an_expression_of_the_threshold_has_the_result_of_the_threshold() -> None:
    texts = make_texts(200, seed=4)
    assert (
        nk.dedup(texts, accept="jaccard >= 0.7").clusters == nk.dedup(texts, threshold=0.7).clusters
    )


def test_the_weighted_similarity_and_containment_decide_together() -> None:
    texts = make_texts(40, seed=5)
    both = nk.dedup(
        texts, measure="idf-jaccard", accept="idf_jaccard >= 0.6 and containment >= 0.98"
    )
    weighted = nk.dedup(texts, measure="idf-jaccard", threshold=0.6)
    sets = [set(zip(*(text.lower().split()[i:] for i in range(3)), strict=False)) for text in texts]
    lost = [
        len(sets[n] - sets[kept]) / len(sets[n])
        for n, kept in enumerate(removed_against(both.clusters))
    ]
    assert max(lost) <= 0.02
    assert 0 < np.count_nonzero(~both.kept) < np.count_nonzero(~weighted.kept)


def test_no_removed_document_loses_more_than_the_bound() -> None:
    texts = make_texts(100, seed=6)
    result = nk.dedup(texts, threshold=0.5, max_lost=0.05, shingle="words:2")
    oracle = Oracle(texts, [None] * len(texts))
    expression = parse_expression("jaccard >= 0.5 and containment >= 0.95")
    assert removed_against(result.clusters) == oracle.leaders(expression)
    assert result.kept.sum() > nk.dedup(texts, threshold=0.5, shingle="words:2").kept.sum()


@pytest.mark.parametrize("accept", ["safe", "contained", "containment >= 0.9 and witness >= 41"])
def test_the_result_depends_neither_on_threads_nor_on_memory(
    accept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
    texts = make_texts(150, seed=7)
    expected = nk.dedup(texts, accept=accept, workers=1, memory="4GB").clusters
    # The smallest hashes are counted and looked up in portions, and hashes do not stay in memory.
    monkeypatch.setattr("nearkin.engine.containment_search.BYTES_PER_HASH", 10**6)
    monkeypatch.setattr("nearkin.engine.run.KEPT_HASHES_SHARE", 10**9)
    assert nk.dedup(texts, accept=accept, workers=3, memory="600MB").clusters == expected


def test_copies_in_hot_buckets_are_kept_if_their_numbers_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
    form = " ".join(WORDS[:60])
    texts = [f"{form} invoice {number // 2} due" for number in range(300)]
    options = {"normalise": "nfkc,lower,number", "hot_bucket_size": 10, "pair_budget": 0}
    assert nk.dedup(texts, **options).kept.sum() == 1
    result = nk.dedup(texts, accept="jaccard >= 0.8 and numbers_equal", **options)
    assert removed_against(result.clusters) == [number // 2 * 2 for number in range(300)]


def test_empty_inputs_and_one_document_are_accepted() -> None:
    assert nk.dedup([], accept="safe").kept.tolist() == []
    empty = {"text": [], "lang": []}
    assert nk.dedup(empty, accept="jaccard >= 0.8 and same(lang)").kept.tolist() == []
    assert nk.dedup(empty, block_by="lang").kept.tolist() == []
    assert nk.dedup(["one document"], accept="safe").kept.tolist() == [True]
    assert nk.dedup(["", "", "a b c d"], accept="contained").kept.tolist() == [True, True, True]


def test_lists_of_tokens_are_accepted_by_their_digits() -> None:
    lists = [["no", "12", "of", "may"], ["no", "12", "of", "may"], ["no", "13", "of", "may"]]
    result = nk.dedup(
        {"tokens": lists},
        tokens="tokens",
        shingle="words:1",
        accept="jaccard >= 0.5 and numbers_equal",
    )
    assert result.kept.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accept": "numbers_equal"}, "can hold for documents that share no shingle"),
        ({"accept": "jaccard <= 0.8"}, "can hold for documents that share no shingle"),
        ({"accept": "idf_jaccard >= 0.8"}, "give measure='idf-jaccard'"),
        ({"accept": "contained", "measure": "idf-jaccard"}, "add a condition such as idf_jaccard"),
        ({"accept": "safe", "measure": "simhash"}, "give measure='jaccard'"),
        ({"accept": "safe", "cluster": "components"}, "give cluster='leaders'"),
        ({"max_lost": 0.1, "cluster": "components"}, "give cluster='leaders'"),
        ({"accept": "safe", "verify": "estimate"}, "give verify='exact'"),
        ({"accept": "safe", "second_measure": "cosine:v:0.9"}, "exclude each other"),
        ({"accept": "safe", "keep": "central"}, "give a keep policy that orders documents"),
        ({"max_lost": 1.5}, "max_lost=1.5 is out of range"),
        ({"accept": "jaccard >= 0.8 and same(nowhere)"}, "nowhere"),
        ({"accept": "nonsense"}, "unknown term 'nonsense'"),
    ],
)
def test_contradictory_options_are_refused(options: Mapping[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nk.dedup(["a b c d"], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("relation", "expression"),
    [
        *(("containment", each) for each in EXPRESSIONS[1::2]),
        *(("similarity", each) for each in EXPRESSIONS[1::4]),
        *(pytest.param("containment", each, marks=pytest.mark.full) for each in EXPRESSIONS[::2]),
        *(pytest.param("similarity", each, marks=pytest.mark.full) for each in EXPRESSIONS[::2]),
        *(pytest.param("similarity", each, marks=pytest.mark.full) for each in EXPRESSIONS[3::4]),
    ],
)
def test_pairs_are_listed_as_by_an_oracle(
    relation: str, expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
    # the words of the other texts have digits
    contained = "please pay no 12 for the delivery of may"
    texts = [*make_texts(40, seed=8), contained, f"{contained} soon"]
    languages = [("de", "en", None)[number % 3] for number in range(len(texts))]
    oracle = Oracle(texts, languages)
    options: dict[str, Any] = {"shingle": "words:2", "recall": 0.999, "k": 256}
    table = {"text": texts, "lang": languages}
    result = nk.pairs(table, accept=expression, relation=relation, **options).pairs.arrow
    listed = [(int(row["id_a"]), int(row["id_b"])) for row in result.to_pylist()]
    if relation == "containment":
        # a document is contained in a larger one, and of two equally large ones in the later one
        order = sorted(range(len(texts)), key=lambda n: (-len(oracle.sets[n]), -n))
        assert sorted(listed) == oracle.pairs(parse_expression(expression), order)
    else:
        expected = oracle.pairs(parse_expression(expression), oracle.keep_order())
        assert sorted(listed) == sorted((min(pair), max(pair)) for pair in expected)
    assert listed


def test_pairs_of_a_condition_are_those_of_dedup() -> None:
    texts = make_texts(50, seed=8)
    accept = "containment >= 0.6 and witness >= 20"
    listed = nk.pairs(texts, accept=accept, shingle="words:2").pairs
    assert listed == nk.dedup(texts, accept=accept, shingle="words:2").pairs
    assert len(listed) > 0


def test_the_direction_of_a_pair_is_that_of_the_keep_policy_or_of_the_sizes() -> None:
    texts = ["a b c d", "a b c d e f g h"]
    for keep, count in (("length desc", 1), ("length asc", 0)):
        listed = nk.pairs(texts, accept="contained", shingle="words:1", keep=keep).pairs
        assert len(listed) == count
        contained = nk.pairs(
            texts, accept="contained", relation="containment", shingle="words:1", keep=keep
        )
        assert len(contained.pairs) == 1


def test_missing_pairs_of_a_condition_are_estimated() -> None:
    words = ["".join(letters) for letters in itertools.product("abcdefghi", repeat=3)]
    shared = " ".join(words[:70])
    texts = [f"{shared} {words[100 + number]} {number % 2}" for number in range(60)]
    listed = {"relation": "containment", "shingle": "words:1"}
    accept = "containment >= 0.9 and numbers_equal and witness >= 60"
    complete = nk.pairs(texts, accept=accept, **listed)
    assert (len(complete.pairs), complete.missing) == (2 * 30 * 29 // 2, None)
    cut = nk.pairs(texts, accept=accept, hot_bucket_size=10, pair_budget=0, **listed)
    assert cut.missing is not None
    assert len(cut.pairs) + cut.missing.pairs == len(complete.pairs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accept": "witness >= 30"}, "can hold for documents that share no shingle"),
        ({"accept": "safe", "threshold": 0.5}, "exclude each other: the expression decides alone"),
        ({"accept": "safe", "verify": "none"}, "give verify='exact'"),
        ({"accept": "safe", "verify": "estimate"}, "give verify='exact'"),
        ({"accept": "safe", "measure": "simhash"}, "give measure='jaccard'"),
        ({"accept": "safe", "related": 0.3}, "links documents of different clusters"),
        ({"accept": "jaccard >= 0.8 and same(nowhere)"}, "nowhere"),
        ({"accept": "nonsense"}, "unknown term 'nonsense'"),
        ({"max_lost": 0.1}, "max_lost=0.1 decides which .* write it as accept='jaccard >= 0.8 and"),
    ],
)
@pytest.mark.parametrize("relation", ["similarity", "containment"])
def test_pairs_refuse_what_contradicts_a_condition(
    relation: str, options: Mapping[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        nk.pairs(["a b c d"], relation=relation, **options)  # type: ignore[arg-type]


def test_copies_are_not_expanded_under_a_condition() -> None:
    with pytest.raises(UsageError, match=r"accept='safe' decides .* leave out expand_exact=True$"):
        nk.pairs(["a b c d"], accept="safe", expand_exact=True)


def test_the_pairs_of_a_run_with_an_acceptance_do_not_decide_another_threshold() -> None:
    result = nk.dedup(["a b c d", "a b c d e"], accept="contained")
    with pytest.raises(UsageError, match="run again with another condition"):
        result.rethreshold(0.9)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("same(doi)", [True, False, True, True, False]),
        ("not differ(doi)", [True, False, True, False, False]),
        ("differ(doi)", [True, True, False, True, True]),
    ],
)
def test_a_missing_doi_is_not_the_same_and_does_not_differ(
    condition: str, kept: list[bool]
) -> None:
    text = "one two three four five six"
    dois = ["https://doi.org/10.1/X", "doi:10.1/x", "10.1/y", None, ""]
    table = {"id": list("abcde"), "text": [text] * len(dois), "doi": dois}
    result = nk.dedup(table, id="id", keep="id", accept=f"jaccard >= 0.9 and {condition}")
    assert result.kept.tolist() == kept


def test_mixed_hashes_depend_on_both_parts_and_their_order() -> None:
    numbers = np.arange(300, dtype=np.uint64)
    first, second = (part.ravel() for part in np.meshgrid(numbers, numbers))
    zero = np.zeros_like(first)
    mixed = mix_hashes(mix_hashes(zero, first), second)
    assert len(np.unique(mixed)) == len(mixed)


def test_a_saved_run_without_the_wordings_is_refused_before_anything_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "documents.csv"
    path.write_text("text\none two three four 5\none two three four 6\n")
    saved = tmp_path / "saved"
    assert run(["dedup", str(path), "--save-signatures", "--out", str(saved)]) == 0
    out = tmp_path / "out"
    assert run(["dedup", str(saved), "--accept", "safe", "--out", str(out)]) == 2
    assert "needs the wording of the texts" in capfd.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["documents.csv", "saved"]
