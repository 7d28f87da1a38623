"""Cuts of repeated passages, compared with an oracle that looks at all runs of words."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

import nearkin
from nearkin.errors import UsageError
from nearkin.stages.shingle.shingler import Shingler
from nearkin.stages.winnowing.tokens import locate_all_tokens
from nearkin.texts.passages.cutting import boundaries, plan
from nearkin.texts.passages.cutting.request import CutRequest
from tests.texts.passages.cut_texts import CutTexts
from tests.texts.passages.oracle import generate_texts

CHARACTERS = nearkin.Spec(unit="chars", n=1)


@pytest.mark.parametrize("least", [2, 3, 8])
def test_no_run_stays_at_two_places_and_none_that_is_cut_vanishes(least: int, full: bool) -> None:
    rng = np.random.default_rng(least)
    for _ in range(500 if full else 8):
        cut = CutTexts(generate_texts(rng), least)
        cut.require_restorable()
        cut.require_nothing_vanished()
        cut.require_only_repetitions_are_cut()
        assert all(len(places) == 1 for places in cut.complete_places().values())


SHINGLER = Shingler(nearkin.Spec(n=1))


def shares_characters(text: str, start: int, least: int) -> bool:
    """Returns whether a word of a run belongs to one grapheme cluster with the word before it.

    Args:
        text: The text.
        start: Number of the first word of the run.
        least: Number of words of the run. The word after it is looked at, too.
    """
    content = text.encode()
    words = locate_all_tokens(SHINGLER, text)
    following = range(max(start, 1), min(start + least + 1, len(words.starts)))
    return any(
        boundaries.find_grapheme(content, int(words.starts[number]))[0] < words.ends[number - 1]
        for number in following
    )


def test_words_that_share_a_character_are_cut_together_or_not_at_all(full: bool) -> None:
    """A run stays at two places only if its words share characters, and none vanishes."""
    rng = np.random.default_rng(3)
    parts = np.array(["a ", "b ", "½ ", "½", "㏂", "ทำ", "e\u0301 ", "\u0301"])
    repeated = 0
    for least in [2, 3, 5] * (40 if full else 2):
        texts = ["".join(rng.choice(parts, int(rng.integers(0, 40)))) for _ in range(5)]
        texts.append("½ a " * 9)
        kept = nearkin.passages(texts, min_tokens=least, cut_unit="passage").kept_documents
        places = defaultdict(list)
        cut = defaultdict(set)
        for text, spans in zip(texts, kept["cut_spans"].to_pylist(), strict=True):
            words = locate_all_tokens(SHINGLER, text)
            stays = [all(not s["start"] <= at < s["end"] for s in spans) for at in words.starts]
            for start in range(len(stays) - least + 1):
                run = words.hashes[start : start + least].tobytes()
                if all(stays[start : start + least]):
                    places[run].append((text, start))
                for word in range(start, start + least):
                    if not stays[word]:
                        cut[text, word].add(run)
        assert all(runs & places.keys() for runs in cut.values())
        for copies in places.values():
            if len(copies) > 1:
                repeated += 1
                apart = [
                    (text, start)
                    for text, start in copies
                    if not shares_characters(text, start, least)
                ]
                assert len(apart) <= 1
    assert repeated


def test_a_character_is_cut_only_if_all_its_words_are_in_the_passage() -> None:
    texts = ["add the juice of 1", "add the juice of ½ lemon", "add the juice of 1 2 lemons"]
    left = CutTexts(texts, 4).result.kept_documents["text"].to_pylist()
    assert left == [texts[0], "½ lemon", "2 lemons"]


def test_words_that_a_cut_brings_together_can_be_a_run_that_a_second_run_finds() -> None:
    notice = "all visitors leave their bags at the desk"
    texts = [f"{notice} now", "red green blue black", f"red green {notice} blue black"]
    left = CutTexts(texts, 4).result.kept_documents["text"].to_pylist()
    assert left == [texts[0], texts[1], "red green blue black"]
    assert CutTexts(left, 4).result.kept_documents["text"].to_pylist()[2] == ""


@pytest.mark.parametrize("cut_unit", ["passage", "sentence", "line"])
def test_passages_of_characters_are_cut_and_nothing_vanishes(cut_unit: str) -> None:
    rng = np.random.default_rng(11)
    letters = np.array(list("日本語の文章です。\n"))
    for _ in range(6):
        texts = ["".join(rng.choice(letters, int(rng.integers(0, 50)))) for _ in range(3)]
        texts += [texts[0][2:40] + "終わり", "始め\n" + texts[1]]
        cut = CutTexts(texts, 6, cut_unit=cut_unit, spec=CHARACTERS)
        cut.require_restorable()
        cut.require_nothing_vanished()
        cut.require_only_repetitions_are_cut()
        if cut_unit == "passage":
            assert all(len(places) == 1 for places in cut.complete_places().values())


def test_cuts_of_characters_never_divide_graphemes() -> None:
    shared = "नमस्ते क्षत्रिय की दुनिया में आपका स्वागत है"
    texts = [f"अ{shared}", f"क{shared}ि और", f"{shared[1:]}\u0301 है"]
    cut = CutTexts(texts, 8, spec=CHARACTERS)
    assert cut.cuts
    for row in cut.cuts:
        text = texts[row["document"]].encode()
        for position in (row["start"], row["end"]):
            assert boundaries.find_grapheme(text, position) == (position, position)


@pytest.mark.parametrize("unit", ["sentence", "line", "paragraph"])
def test_units_are_cut_as_wholes_and_nothing_vanishes(unit: str, full: bool) -> None:
    rng = np.random.default_rng(7)
    separators = np.array([" ", " ", " ", ". ", "! ", "\n", "\r\n", "\n\n", " \n \n"])
    for _ in range(300 if full else 8):
        texts = [
            "".join(word + str(rng.choice(separators)) for word in text.split())
            for text in generate_texts(rng)
        ]
        cut = CutTexts(texts, 3, cut_unit=unit, min_left=int(rng.integers(0, 20)))
        cut.require_restorable()
        # Words before a full stop are other words for the oracle, so it sees them without.
        cut.words = [text.lower().replace(".", " ").replace("!", " ").split() for text in texts]
        cut.require_nothing_vanished()


def test_passage_stays_complete_in_the_first_document_of_the_keep_order() -> None:
    shared = "all visitors leave their bags at the desk"
    texts = [f"one {shared} one", f"{shared}", f"three, {shared}; three"]
    rows = [{"text": text, "rank": -number} for number, text in enumerate(texts)]
    result = nearkin.passages(rows, min_tokens=5, cut_unit="passage", keep="rank asc")
    assert result.kept_documents["text"].to_pylist() == ["one one", "", f"three, {shared}; three"]
    assert [row["kept_id"] for row in result.cuts.to_pylist()] == ["0000000002"] * 2
    assert result.statistics["documents_cut"] == 2


def test_chain_of_overlapping_passages_leaves_each_part_once() -> None:
    """The second document repeats the first, and the third repeats the end of the second."""
    words = [f"w{number}" for number in range(40)]
    texts = [" ".join(words[:20]), " ".join(words[10:30]), " ".join(words[20:40])]
    cut = CutTexts(texts, 5)
    cut.require_nothing_vanished()
    left = [word for number in range(3) for word in cut.kept[number]["text"].split()]
    assert sorted(left) == sorted(words)


def test_periodic_text_keeps_one_run() -> None:
    cut = CutTexts(["a " * 300, "a " * 9], 5)
    assert cut.kept[0]["text"].split() == ["a"] * 5
    assert cut.kept[1]["text"].split() == []


def test_documents_below_min_left_are_removed_unless_a_passage_stays_in_them() -> None:
    shared = "all visitors leave their bags at the desk"
    other = "nobody may enter the reading room with food"
    texts = [f"{other} x", f"{other} {shared}", f"{shared} and so on", f"{shared} y"]
    cut = CutTexts(texts, 5, min_left=10)
    assert sorted(cut.kept) == [0, 1]
    cut.require_nothing_vanished()
    cut.require_restorable()
    assert cut.result.statistics["documents_removed"] == 2


def test_documents_are_removed_from_the_given_share_on() -> None:
    shared = "aaaa bbbb cccc dddd"
    texts = [shared, f"{shared} eeee", f"{shared} eeee ffff gggg hhhh iiii jjjj"]
    assert sorted(CutTexts(texts, 3, cut_unit="document:0.5").kept) == [0, 2]
    assert sorted(CutTexts(texts, 3, cut_unit="document:0.3").kept) == [0]
    assert sorted(CutTexts(texts, 3, cut_unit="document:0.79").kept) == [0, 2]
    assert sorted(CutTexts(texts, 3, cut_unit="document:1").kept) == [0, 1, 2]


def test_document_with_exactly_the_share_is_removed() -> None:
    """The product of the share and the size is rounded: 0.55 · 20 is 11.000000000000002."""
    texts = ["aaa bbb ccc", "aaa bbb ccc dddd eee"]
    assert sorted(CutTexts(texts, 3, cut_unit="document:0.55").kept) == [0]


def test_shares_that_differ_are_recorded_differently() -> None:
    """Otherwise a run could be resumed with another share than the one that began it."""
    records = {str(CutRequest.parse(f"document:{share}").to_record()) for share in (0.9999999, 1)}
    assert len(records) == 2


def test_document_that_repeats_itself_is_not_removed() -> None:
    assert sorted(CutTexts(["a b c d " * 20], 3, cut_unit="document:0.1").kept) == [0]


def test_result_does_not_depend_on_batches_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    texts = [text for _ in range(5) for text in generate_texts(rng)]
    expected = CutTexts(texts, 3, workers=1)
    monkeypatch.setattr(plan, "RUNS_AT_ONCE", 1)
    assert CutTexts(texts, 3, workers=3).cuts == expected.cuts


def test_cuts_never_divide_graphemes() -> None:
    shared = "eins zwei drei vier fünf"
    texts = [f"x {shared} y", f"x {shared}\u0301 y", f"x {shared}\u200d\u0301 \u0301y"]
    result = nearkin.passages(texts, min_tokens=4, cut_unit="passage", keep="length asc")
    for row, text in zip(result.kept_documents.to_pylist(), texts, strict=True):
        for span in row["cut_spans"]:
            for position in (span["start"], span["end"]):
                assert boundaries.find_grapheme(text.encode(), position) == (position, position)


def test_nothing_to_cut_leaves_all_documents() -> None:
    for texts in ([], [""], ["one text alone"]):
        result = nearkin.passages(pa.table({"text": pa.array(texts, pa.string())}), cut_unit="line")
        assert result.kept_documents["text"].to_pylist() == texts
        assert len(result.cuts) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cut_unit": "word"}, "cut_unit='word' is not one of passage"),
        ({"cut_unit": "line:0.5"}, "only document has a share"),
        ({"cut_unit": "document"}, "write document:SHARE"),
        ({"cut_unit": "document:1.5"}, "write document:SHARE"),
        ({"cut_unit": "document:x"}, "write document:SHARE"),
        ({"cut_unit": "passage", "min_left": -1}, "min_left=-1 is out of range"),
        ({"cut_unit": "document:0.5", "min_left": 3}, "min_left=3 has no effect with"),
        ({"min_left": 3}, "nothing is cut; add cut_unit='passage'"),
        ({"keep": "length asc"}, "nothing is cut; add cut_unit='passage'"),
        ({"cut_unit": "passage", "keep": "central"}, "have none; leave out central"),
        ({"cut_unit": "passage", "keep": "absent"}, "absent"),
        ({"cut_unit": "passage", "text": ["text", "other"]}, "rewrites one column of texts"),
    ],
)
def test_invalid_cut_is_an_error_with_the_value(options: dict[str, object], message: str) -> None:
    rows = [{"text": "a b c", "other": "d"}]
    with pytest.raises(UsageError, match=message):
        nearkin.passages(rows, **options)  # type: ignore[arg-type]


def test_all_copies_in_one_document_are_cut_but_one() -> None:
    passage = "the pump of the north hall stopped twice and was started by hand"
    text = " ".join(f"{passage} w{number}" for number in range(300))
    found = nearkin.passages([text, passage], min_tokens=6, cut_unit="passage")
    texts = found.kept_documents["text"].to_pylist()
    assert sum(left.count("north hall") for left in texts) == 1
    assert all(f"w{number}" in texts[0].split() for number in range(300))
