"""Repeated lines and paragraphs, compared with an oracle in plain Python."""

import re
import unicodedata
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import nearkin
from nearkin.texts.passages import partitions
from nearkin.texts.passages.lines import frequencies

LINE_ENDS = re.compile(r"\r\n|\n|\r")
PARAGRAPH_ENDS = re.compile(r"(?:\r\n|\n|\r(?!\n))(?:[ \t]*(?:\r\n|\n|\r(?!\n)))+")
PARTS = ["Home", "home ", " HOME", "ﬁx", "fix", "\u2028a", "a\f", "a", "", " \f", "\u3000", "é"]
ENDS = ["\n", "\r\n", "\r", "\n\n", "\r\n \r\n", ""]


def find_places(text: str, ends: re.Pattern[str]) -> list[tuple[str, str]]:
    """Returns the units of a text, each in its original and in its normalized form."""
    bounds = [0, *(match.end() for match in ends.finditer(text)), len(text)]
    units = [text[start:end] for start, end in pairwise(bounds)]
    return [(unit, normalise(unit)) for unit in units]


def normalise(unit: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", unit).lower())
    return " ".join(folded.split())


def expect_texts(
    texts: list[str], ends: re.Pattern[str], least: int, action: str
) -> tuple[list[str], Counter[tuple[int, int, int]]]:
    """Returns the texts after the cut, and the frequencies, places and keepers of lines."""
    places = defaultdict(list)
    for number, text in enumerate(texts):
        for position, (_, content) in enumerate(find_places(text, ends)):
            if content:
                places[content].append((number, position))
    repeated = {
        content: at for content, at in places.items() if len({place[0] for place in at}) >= least
    }
    cut = {place for at in repeated.values() for place in at}
    if action == "keep-one":
        cut -= {at[0] for at in repeated.values()}
    left = [
        "".join(
            unit
            for position, (unit, _) in enumerate(find_places(text, ends))
            if (number, position) not in cut
        )
        for number, text in enumerate(texts)
    ]
    rows = Counter((len({place[0] for place in at}), len(at), at[0][0]) for at in repeated.values())
    return left, rows


def make_rows(texts: list[str]) -> pa.Table:
    numbers = range(len(texts))
    return pa.table(
        {
            "id": [f"{number:06}" for number in numbers],
            "text": pa.array(texts, pa.string()),
            "rank": pa.array(numbers, pa.int64()),
            "site": pa.array([None if n % 3 == 2 else f"s{n % 3}" for n in numbers], pa.string()),
        }
    )


@pytest.mark.parametrize("unit", ["lines", "paragraphs"])
@pytest.mark.parametrize("action", ["keep-one", "remove"])
def test_cut_texts_and_counts_are_those_of_the_oracle(unit: str, action: str) -> None:
    ends = LINE_ENDS if unit == "lines" else PARAGRAPH_ENDS
    generator = np.random.default_rng(7)
    for _ in range(20):
        texts = [
            "".join(
                part
                for _ in range(generator.integers(8))
                for part in (generator.choice(PARTS), generator.choice(ENDS))
            )
            for _ in range(generator.integers(1, 12))
        ]
        least = int(generator.integers(2, 5))
        options: dict[str, int] = {f"repeated_{unit}": least}
        result = nearkin.passages(  # type: ignore[call-overload]
            make_rows(texts), id="id", keep="rank asc", lines_action=action, **options
        )
        left, rows = expect_texts(texts, ends, least, action)
        assert result.kept_documents["text"].to_pylist() == left
        listed = result.repeated_lines.to_pylist()
        assert Counter((row["documents"], row["places"], int(row["id"])) for row in listed) == rows
        assert result.statistics["repeated_lines"] == rows.total()
        for number, text in enumerate(texts):
            spans = result.kept_documents["cut_spans"][number].as_py()
            pieces = [text.encode()[span["start"] : span["end"]].decode() for span in spans]
            cut = [row for row in result.cuts.to_pylist() if row["document"] == number]
            assert pieces == [row["text"] for row in cut]


def test_report_lists_lines_with_their_sources_and_cuts_nothing() -> None:
    rows = make_rows(["Home\na", "x\nHOME", "home", "b\nhome\nhome"])
    result = nearkin.passages(
        rows, id="id", source="site", repeated_lines=2, lines_action="report", keep="rank desc"
    )
    assert result.repeated_lines.to_pylist() == [
        {
            "documents": 4,
            "places": 5,
            "id": "000003",
            "start": 2,
            "end": 7,
            "text": "home\n",
            "sources": [
                {"source": "s0", "documents": 2},
                {"source": "s1", "documents": 1},
                {"source": None, "documents": 1},
            ],
        }
    ]
    assert len(result.kept_documents) == len(result.cuts) == 0
    assert "cuts" not in result.statistics


def test_line_in_many_documents_stays_in_one(full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = 100_000 if full else 30_000
    monkeypatch.setattr(frequencies, "WORKING_SPACE", 1 << 10)
    monkeypatch.setattr(frequencies, "PENDING_BYTES", 1 << 16)
    monkeypatch.setattr(partitions, "PENDING_BYTES", 1 << 16)
    texts = [f"Notice\n{number % (documents // 2)}" for number in range(documents)]
    result = nearkin.passages(
        make_rows(texts), id="id", repeated_lines=3, keep="rank asc", memory="600MB"
    )
    assert result.repeated_lines["documents"].to_pylist() == [documents]
    assert result.statistics["cuts"] == documents - 1
    assert result.kept_documents["text"][0].as_py() == "Notice\n0"


def test_result_depends_neither_on_memory_nor_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows([f"{n % 7}\n{n % 5}\r\n{n % 3}" for n in range(200)])
    usual = nearkin.passages(rows, id="id", repeated_lines=2, workers=1)
    monkeypatch.setattr(frequencies, "WORKING_SPACE", 1 << 20)
    other = nearkin.passages(rows, id="id", repeated_lines=2, workers=3)
    assert other.cuts.to_pylist() == usual.cuts.to_pylist()
    assert other.repeated_lines.to_pylist() == usual.repeated_lines.to_pylist()


@pytest.mark.parametrize("texts", [[], [""], ["\n \r\n\f\u2028"], ["one"]])
def test_corpora_without_repeated_lines_are_kept_as_they_are(texts: list[str]) -> None:
    result = nearkin.passages(make_rows(texts), id="id", source="site", repeated_lines=2)
    assert result.kept_documents["text"].to_pylist() == texts
    assert len(result.repeated_lines) == 0
