"""Items of suites in documents, compared with an oracle that compares all words."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearkin
from nearkin.corpus import Columns, TableCorpus
from nearkin.corpus.arrow_conversion import to_table
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.runtime.progress import Silent
from nearkin.settings.keys import HashKey
from nearkin.stages.winnowing import tokens
from nearkin.texts.decontamination import matching, run
from nearkin.texts.decontamination.candidate_texts import CandidateTextWriter
from nearkin.texts.decontamination.index import SuiteIndex
from nearkin.texts.decontamination.request import DecontaminationRequest, OperatingPoint
from nearkin.texts.decontamination.run import DecontaminationRun
from nearkin.texts.decontamination.suite_inputs import SuiteColumns, suites_of_data
from nearkin.texts.passages.run import PassageOptions
from tests.seeds import list_seeds
from tests.texts.decontamination.oracle import find_items

QUESTION = (
    "If a train leaves the northern station at nine o'clock and travels at eighty kilometres per "
    "hour, when does it reach the harbour of the well-known southern town?"
)
FILLER = [f"filler{number}" for number in range(400)]


SEEDS = {False: 60, True: 5000}
"""The number of random cases in the quick and in the full form."""


def find_with(
    texts: list[str],
    items: Sequence[Mapping[str, str]],
    request: DecontaminationRequest,
    folder: Path,
    *,
    key: HashKey | None = None,
    workers: int = 2,
) -> dict[tuple[int, int, str], float]:
    """Returns the scores that a run finds, with passages of any smallest number of words."""
    bound = 1 << 30
    point = request.point
    suites = suites_of_data({"s": to_table(list(items))}, SuiteColumns(), key, bound)
    finished = DecontaminationRun(
        TableCorpus(pa.table({"text": pa.array(texts, pa.string())})),
        Columns(),
        SuiteIndex(suites, point.least),
        request,
        PassageOptions(suites.spec, point.least, memory=bound, workers=workers),
        WorkFolder.create(folder, {}, durable=False),
        Silent(),
        key,
    )
    finished.find()
    ids = finished.index.suites.items["id"].to_pylist()
    return {
        (hit["document"], int(ids[hit["item"]]), suites.fields[hit["field"]]): hit["score"]
        for hit in finished.hits.to_pylist()
    }


def generate_case(rng: np.random.Generator) -> tuple[list[str], list[dict[str, str]]]:
    """Returns texts, and different items, of which parts are planted with and without changes."""
    size = int(rng.choice([3, 12, 200]))
    vocabulary = np.array([f"w{number}" for number in range(size)])

    def draw(least: int, most: int) -> list[str]:
        return rng.choice(vocabulary, int(rng.integers(least, most))).tolist()

    items: dict[tuple[str, str], None] = {}
    for _ in range(int(rng.integers(1, 9))):
        template = ["t1", "t2", "t3", "t4"] if rng.random() < 0.4 else []
        question = " ".join([*template, *draw(0, 16)])
        items[question, " ".join(draw(0, 5))] = None
    rows = [{"question": question, "answer": answer} for question, answer in items]
    texts = []
    for _ in range(int(rng.integers(1, 9))):
        words = draw(0, 12)
        for _ in range(int(rng.integers(0, 3))):
            item = rows[int(rng.integers(0, len(rows)))]
            planted = item["question"].split()
            if planted and rng.random() < 0.5:
                place = int(rng.integers(0, len(planted)))
                planted[place : place + int(rng.integers(0, 3))] = draw(0, 3)
            words += [*planted, *draw(0, 4), *item["answer"].split(), *draw(0, 6)]
        texts.append(" ".join(words))
    return texts, rows


def draw_request(rng: np.random.Generator) -> DecontaminationRequest:
    """Returns a request with any number of words of a passage, and any thresholds."""
    point = OperatingPoint("drawn", int(rng.integers(2, 9)), has_gap=bool(rng.random() < 0.6))
    thresholds = {
        name: float(rng.choice([0.3, 0.7, 0.9, 1.0]))
        for name in ("question", "answer")
        if rng.random() < 0.5
    }
    return DecontaminationRequest(point, thresholds)


@pytest.mark.parametrize("part", range(2))
def test_scores_are_those_of_comparing_all_words(
    part: int, tmp_path: Path, request: pytest.FixtureRequest, full: bool
) -> None:
    """A failure names its seed, and `--seed N` repeats that case."""
    for seed in list_seeds(request, SEEDS[full])[part::2]:
        rng = np.random.default_rng(seed)
        texts, items = generate_case(rng)
        drawn = draw_request(rng)
        key = HashKey(rng.bytes(16)) if rng.random() < 0.3 else None
        workers = int(rng.integers(1, 4))
        folder = tmp_path / str(seed)
        scores = find_with(texts, items, drawn, folder, key=key, workers=workers)
        expected = find_items(texts, items, drawn)
        told = f"seed {seed}: {drawn} {key} {texts} {items}"
        assert scores == pytest.approx(expected, abs=1e-9), told


class OneTextWriter(CandidateTextWriter):
    """A writer that keeps the text of the first candidate of a batch alone."""

    def add(self, texts: pa.Array, first: int, numbers: np.ndarray) -> None:
        super().add(texts, first, numbers[:1])


def test_texts_that_were_not_kept_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [QUESTION, " ".join(FILLER), rewrap(QUESTION), f"Again: {QUESTION}"]
    request = DecontaminationRequest(OperatingPoint("a", 3, has_gap=True))
    kept = find_with(texts, [{"question": QUESTION}], request, tmp_path / "kept")
    monkeypatch.setattr(run, "CandidateTextWriter", OneTextWriter)
    assert find_with(texts, [{"question": QUESTION}], request, tmp_path / "one") == kept
    assert [document for document, _, _ in kept] == [0, 2, 3]


def rewrap(text: str) -> str:
    words = text.split()
    return "\n".join(" ".join(words[start : start + 8]) for start in range(0, len(words), 8))


CHANGES: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "wrapped": rewrap,
    "upper": str.upper,
    "no punctuation": lambda text: "".join(c for c in text if c.isalnum() or c.isspace()),
    "spaces for punctuation": lambda text: "".join(c if c.isalnum() else " " for c in text),
    "embedded": lambda text: " ".join([*FILLER[:150], text, *FILLER[150:300]]),
    "one word changed": lambda text: text.replace("eighty", "ninety"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("point", ["exact", "longest"])
def test_changed_items_are_found(change: str, point: str) -> None:
    texts = [" ".join(FILLER), CHANGES[change](QUESTION), "Of a train that left we know nothing."]
    found = nearkin.decontaminate(
        texts, {"trains": [{"question": QUESTION}]}, operating_point=point, workers=1
    )
    missed = change == "one word changed" and point == "exact"
    # Without punctuation, o'clock and well-known are other words, and the item has a second form.
    assert found.documents["document"].to_pylist() == ([] if missed else [1])
    if not missed and change != "embedded":
        (spans,) = found.hits["spans"].to_pylist()
        length = len(texts[1].encode())
        covered = sum(span["end"] - span["start"] for span in spans)
        assert covered > length - 12
        assert spans[0]["start"] == 0


def test_templates_and_frequent_quotations_do_not_count() -> None:
    instruction = (
        "Read the following statement with great care and decide whether it is true or false. "
        "Answer with exactly one word and give no explanation of your decision. Statement: "
    )
    words = np.array([f"word{number}" for number in range(2000)])
    rng = np.random.default_rng(3)
    items = [{"question": instruction + " ".join(rng.choice(words, 8))} for _ in range(40)]
    texts = [instruction + " ".join(rng.choice(words, 8)) for _ in range(200)]
    texts.append(items[5]["question"])
    for point in ("exact", "longest"):
        found = nearkin.decontaminate(texts, {"truth": items}, operating_point=point)
        assert found.documents["document"].to_pylist() == [200]
        assert found.items["item"].to_pylist() == ["5"]


def test_a_famous_quotation_in_an_item_does_not_count_where_many_documents_have_it() -> None:
    quotation = "it was the best of times it was the worst of times it was the age of wisdom"
    item = {"question": f"Whose novel begins with {quotation} before Darnay boards the packet?"}
    rare = [f"x{number} y{number} z{number} {quotation}" for number in range(50)]
    assert len(nearkin.decontaminate(rare, {"novels": [item]})) == 0
    assert len(nearkin.decontaminate([*rare, item["question"]], {"novels": [item]})) == 1


def test_short_items_are_found_whole_and_with_their_neighbours() -> None:
    item = {"question": "What is the capital of Austria?", "answer": "Vienna"}
    texts = [
        "Quiz. What is the capital of Austria? A: Vienna, B: Graz",
        "What is the capital of Austria, he asked, and nobody answered",
        "Vienna is the capital of Austria",
        "What is the capital of Austria? " + " ".join(FILLER[:80]) + " Vienna",
        "Somebody spoke about something else",
    ]
    found = nearkin.decontaminate(texts, {"capitals": [item]})
    assert found.documents["document"].to_pylist() == [0]
    assert [
        texts[0].encode()[span["start"] : span["end"]]
        for span in found.hits["spans"].to_pylist()[0]
    ] == [b"What is the capital of Austria", b"Vienna"]


def test_a_field_inside_the_longest_one_is_not_near_it() -> None:
    item = {"question": "Which?", "options": ["Graz", "Linz", "Vienna", "Wels"], "answer": "Linz"}
    texts = [
        "Trains call at Graz, Linz, Vienna, Wels",
        "Linz! Trains call at Graz, Linz, Vienna, Wels",
        "Graz, Linz, Vienna, Wels: which?",
        *FILLER[:20],
    ]
    found = nearkin.decontaminate(texts, {"cities": [item]})
    assert found.documents["document"].to_pylist() == [1, 2]


def test_items_that_cannot_be_found_are_counted() -> None:
    items = [
        {"question": "the", "answer": None},
        {"question": "", "answer": ""},
        {"question": "...", "answer": "?!"},
        {"question": QUESTION, "answer": "four"},
    ]
    found = nearkin.decontaminate(["the the the", QUESTION], {"odd": items})
    (suite,) = found.suites.to_pylist()
    assert (suite["items"], suite["not_searched"], suite["contaminated_items"]) == (4, 3, 1)
    assert suite["share"] == 0.25
    assert found.documents["document"].to_pylist() == [1]
    assert "3 of 4 items of the suite odd are too short" in found.warnings[0]
    one = nearkin.decontaminate(["x"], {"odd": items[:1]})
    assert one.warnings[0].startswith("1 of 1 item of the suite odd is too short")


def test_a_file_without_items_is_refused_as_a_suite(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    message = "the suite 'empty' has no items; leave it out of `against`, or give items with .* que"
    with pytest.raises(UsageError, match=message):
        nearkin.decontaminate(["x"], tmp_path / "empty.jsonl")


@pytest.mark.parametrize("items", [[], {}, {"text": []}])
def test_a_table_without_items_and_fields_is_refused_as_a_suite(items: object) -> None:
    with pytest.raises(UsageError, match="the suite 's' has no items; leave it out of `against`"):
        nearkin.decontaminate(["x"], {"s": items})


def test_a_suite_without_the_column_of_ids_is_named() -> None:
    suites = {"a": [{"id": "1", "question": QUESTION}], "b": [{"question": QUESTION}]}
    with pytest.raises(UsageError, match="the suite 'b' cannot be read: the table has no column"):
        nearkin.decontaminate(["x"], suites, suite_id="id")


def test_equal_items_are_counted_together(full: bool) -> None:
    copies = 100_000 if full else 500
    items = [{"question": QUESTION, "answer": "five"}] * copies
    found = nearkin.decontaminate([QUESTION, "x", QUESTION.upper()], {"same": items})
    assert found.items.to_pylist() == [
        {
            "suite": "same",
            "item": "0",
            "copies": copies,
            "hits": 2,
            "documents": 2,
            "score": 1.0,
        }
    ]
    assert found.suites.to_pylist()[0]["share"] == 1.0


def test_a_text_of_many_items_is_a_template() -> None:
    items = [{"context": QUESTION, "question": f"n{number} m{number}"} for number in range(129)]
    assert len(nearkin.decontaminate([QUESTION], {"many": items})) == 0
    assert len(nearkin.decontaminate([QUESTION], {"many": items[:128]})) == 1


def test_periodic_texts_and_items_take_bounded_work(full: bool) -> None:
    """A long periodic document and items made of its words."""
    size = 2_000_000 if full else 60_000
    items = [{"question": "a " * count} for count in (9, 40)]
    items.append({"question": " ".join(["a b"] * 30)})
    texts = ["a " * size, "a b " * size]
    found = nearkin.decontaminate(texts, {"periodic": items}, workers=1)
    assert found.statistics["contaminated_documents"] == 2
    longer = [{"question": "a " * 5000}]
    found = nearkin.decontaminate(texts, {"periodic": longer}, workers=1)
    assert found.suites["not_searched"].to_pylist() == [1]


@pytest.mark.full
def test_a_large_item_in_a_large_document() -> None:
    rng = np.random.default_rng(2)
    vocabulary = np.array([f"n{number}" for number in range(30_000)])
    item = " ".join(rng.choice(vocabulary, 900_000))
    assert len(item) > 5_000_000
    document = " ".join(
        [*rng.choice(vocabulary, 4_000_000), item, *rng.choice(vocabulary, 4_000_000)]
    )
    assert len(document) > 50_000_000
    found = nearkin.decontaminate([document, "other"], {"large": [{"question": item}]})
    (hit,) = found.hits.to_pylist()
    assert hit["score"] == 1.0
    (span,) = hit["spans"]
    assert document[span["start"] : span["end"]] == item


def test_result_does_not_depend_on_pieces_rows_and_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(8)
    vocabulary = np.array([f"n{number}" for number in range(500)])
    items = [{"question": " ".join(rng.choice(vocabulary, 20))} for _ in range(50)]
    texts = [
        " ".join([*rng.choice(vocabulary, 300), item["question"], *rng.choice(vocabulary, 300)])
        for item in items
    ]
    texts.append(" ".join(texts))
    expected = nearkin.decontaminate(texts, {"s": items}, workers=1)
    assert len(expected) == 51
    monkeypatch.setattr(tokens, "PIECE_BYTES", 9000)
    monkeypatch.setattr(matching, "FIRST_ROWS", 1)
    again = nearkin.decontaminate(texts, {"s": items}, workers=3)
    assert again.hits.arrow.equals(expected.hits.arrow)
    assert again.items.arrow.equals(expected.items.arrow)


def test_actions_change_the_documents() -> None:
    texts = [f"Before. {QUESTION} After.", "nothing here"]
    suites = {"trains": [{"question": QUESTION}]}
    cut = nearkin.decontaminate(texts, suites, action="cut")
    assert cut.kept_documents["text"].to_pylist() == ["Before. ? After.", "nothing here"]
    assert cut.cuts["text"].to_pylist() == [QUESTION.rstrip("?")]
    lines = nearkin.decontaminate(texts, suites, action="cut", cut_unit="sentence")
    assert lines.kept_documents["text"].to_pylist() == ["Before. After.", "nothing here"]
    dropped = nearkin.decontaminate(texts, suites, action="drop")
    assert dropped.kept_documents.to_pylist() == [{"id": "0000000001", "text": texts[1]}]
    annotated = nearkin.decontaminate(texts, suites, action="annotate")
    assert annotated.kept_documents["contamination"].to_pylist() == [
        [{"suite": "trains", "item": "0", "field": "question", "score": 1.0}],
        [],
    ]
    assert repr(annotated) == ("<DecontaminationResult: 1 of 1 items in 1 of 2 documents>")


def count_rows(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """Returns a list that gets the number of rows of each call of a kernel that found some."""
    rows: list[int] = []
    kernel = getattr(matching.kernels, name)

    def find(*arguments: Any) -> int:
        rows.append(int(kernel(*arguments)))
        return rows[-1]

    monkeypatch.setattr(matching.kernels, name, find)
    return rows


def test_repeated_short_texts_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = count_rows(monkeypatch, "find_short_texts")
    items = [{"question": "a " * words} for words in (4, 5, 7)]
    found = nearkin.decontaminate(
        ["a " * 9000, "b " * 9, "a " * 4], {"s": items}, workers=1, action="cut"
    )
    assert found.documents["document"].to_pylist() == [0, 2]
    assert found.items["hits"].to_pylist() == [2, 1, 1]
    # After the first places of each text, those that overlap do not count.
    assert max(rows) <= 3 * matching.MOST_PASSAGES + 9000 // 4 + 9000 // 5 + 9000 // 7 + 4
    assert len(found.kept_documents["text"].to_pylist()[0].split()) < 4


@pytest.mark.parametrize("most_further", [1 << 20, 10])
def test_periodic_texts_take_bounded_memory(
    monkeypatch: pytest.MonkeyPatch, most_further: int
) -> None:
    monkeypatch.setattr(matching, "MOST_FURTHER_PASSAGES", most_further)
    rows = count_rows(monkeypatch, "find_passages")
    period = "a b c " * 3000
    items = [{"question": period[: 2 * words]} for words in range(20, 25)]
    found = nearkin.decontaminate([period], {"s": items}, workers=1, action="cut")
    assert found.items["hits"].to_pylist() == [1] * 5
    texts = 5 if most_further > 10 else 1
    assert max(rows) <= 5 * matching.MOST_PASSAGES + 10 + texts * 2 * 9000 // 20
    assert len(found.kept_documents["text"].to_pylist()[0].split()) < 20


def test_all_copies_of_an_item_are_cut() -> None:
    rng = np.random.default_rng(12)
    items = [
        {"question": QUESTION},
        {"question": "Who rows north today?", "answer": "Four old friends"},
        {"question": f"{QUESTION} Tell us in the words of a sailor, and then of a train driver."},
    ]
    words = np.array([f"w{number}" for number in range(300)])
    parts = []
    for number in range(200):
        parts.append(QUESTION.upper() if number % 3 else "")
        parts.append("who rows north today. " * (number % 2) + "Four old friends!")
        # Copies follow each other with a few words between them, or with none.
        parts += rng.choice(words, int(rng.integers(4))).tolist()
        parts.append(items[2]["question"] if number % 5 == 0 else "")
        # The beginning of the item is a passage that overlaps the copy after it.
        parts.append(" ".join(QUESTION.split()[:9]) if number % 7 == 0 else "")
    text = " ".join(parts)
    found = nearkin.decontaminate([text, "other"], {"s": items}, action="cut")
    assert len(found.hits) == 3
    (left, _) = found.kept_documents["text"].to_pylist()
    assert "harbour" not in left.lower()
    assert "rows north today" not in left.lower()
    again = nearkin.decontaminate([left, "other"], {"s": items})
    assert len(again.hits) == 0


def test_copies_of_items_that_repeat_their_first_words_are_cut() -> None:
    """The repeated words before a copy are shorter passages, which overlap most of the copy."""
    item = "tick " * 16 + "then the clock stops at noon sharp"
    copies = [f"tick tick tick {item} other{number}" for number in range(40)]
    found = nearkin.decontaminate(
        [" ".join(copies), "b"], {"s": [{"question": item}]}, action="cut"
    )
    (left, _) = found.kept_documents["text"].to_pylist()
    assert left.split() == [f"other{number}" for number in range(40)]


def test_several_suites_are_told_apart() -> None:
    other = "Which ship carried the first passengers over the frozen bay that winter, and why?"
    found = nearkin.decontaminate(
        [f"{QUESTION} {other}", QUESTION],
        {"b": [{"question": QUESTION}], "a": [{"question": other, "options": ["six", "seven"]}]},
    )
    rows = found.suites.to_pylist()
    assert [(row["suite"], row["documents"]) for row in rows] == [("a", 1), ("b", 2)]
    assert found.documents["suites"].to_pylist() == [["a", "b"], ["b"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operating_point": "longst"}, "operating_point='longst'"),
        ({"field_thresholds": {"question": 0.0}}, "above 0"),
        ({"field_thresholds": {"anser": 0.5}}, "names no field of the suites"),
        ({"action": "delete"}, "annotate, cut, drop"),
        ({"cut_unit": "line"}, "no effect without"),
        ({"action": "cut", "cut_unit": "document:0.5"}, "removes documents"),
        ({"suite_fields": ["prompt"]}, "has none of the fields prompt"),
        ({"suite_fields": ["question", "question"]}, "different columns"),
        ({"suite_id": "number"}, "number"),
        ({"memory": 100_000_000}, "too small"),
        ({"text": "body"}, "body"),
    ],
)
def test_invalid_requests_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nearkin.decontaminate(["a text"], {"s": [{"question": QUESTION}]}, **options)


def test_suites_that_are_too_large_for_the_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "BYTES_PER_WORD", 1 << 20)
    items = [{"question": "word " * 1000}]
    with pytest.raises(UsageError, match="too small for their index"):
        nearkin.decontaminate(["a text"], {"s": items}, memory="1GB")
