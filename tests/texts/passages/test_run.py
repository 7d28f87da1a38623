"""Passages of a corpus, compared with an oracle that compares all windows."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin
from nearkin.cli.app import run
from nearkin.errors import UsageError
from nearkin.stages.winnowing import fingerprints, matching_runs, tokens
from nearkin.texts.passages import partitions, tables, windows
from tests.texts.passages.oracle import generate_texts, require_exact

VECTORS = nearkin.Spec(measure="cosine", unit="vector", n=4)


def passages_of(texts: list[str], least: int, **options: object) -> pa.Table:
    return nearkin.passages(texts, min_tokens=least, **options).passages.arrow  # type: ignore[arg-type]


@pytest.mark.parametrize("least", [2, 3, 8, 20])
def test_every_repeated_window_and_nothing_else_is_reported(least: int, full: bool) -> None:
    rng = np.random.default_rng(least)
    for _ in range(1000 if full else 12):
        texts = generate_texts(rng)
        require_exact(texts, least, passages_of(texts, least))


@pytest.mark.parametrize(
    "texts",
    [
        ["a " * 300],
        ["a b " * 100, "b a " * 90],
        ["a b c " * 50 + "x y z", "z " * 10 + "a b c " * 40],
        ["one two three four five six one two three four five six"],
        ["same words here again and again"] * 40,
        [f"{number} the common part of all of these texts {number}" for number in range(300)],
        ["", " ", "short"],
        [],
    ],
    ids=["one word", "two words", "three words", "inside", "copies", "common", "short", "none"],
)
def test_periodic_and_frequent_texts_are_exact(texts: list[str]) -> None:
    require_exact(texts, 5, passages_of(texts, 5))


def test_result_does_not_depend_on_pieces_partitions_table_size_and_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(1)
    pool = np.array([f"n{number}" for number in rng.integers(0, 3000, 20_000)])
    own = np.array([f"u{number}" for number in range(3000)])
    texts = [
        " ".join(np.concatenate([pool[:9000], own, pool[3000:8000]])),
        " ".join(pool[5000:15_000]),
        "a " * 12_000,
    ]
    expected = passages_of(texts, 50, workers=1)
    require_exact(texts, 50, expected)
    monkeypatch.setattr(tokens, "PIECE_BYTES", 9000)
    monkeypatch.setattr(partitions, "PENDING_BYTES", 100_000)
    monkeypatch.setattr(matching_runs, "FIRST_SLOTS", 4)
    monkeypatch.setattr(windows, "RUNS_AT_ONCE", 1)
    monkeypatch.setattr(fingerprints, "LEAST_WORDS", 1)
    monkeypatch.setattr(fingerprints, "BITS_PER_BYTE", 0)
    assert passages_of(texts, 50, workers=3).equals(expected)


def test_the_table_of_anchors_is_as_small_as_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    real = fingerprints.AnchorFilter.for_corpus

    def record_size(text_bytes: int, memory: int) -> fingerprints.AnchorFilter:
        sizes.append(text_bytes)
        return real(text_bytes, memory)

    monkeypatch.setattr(fingerprints.AnchorFilter, "for_corpus", record_size)
    rows = pa.table({"text": ["one two three"] * 20, "other": [b"x" * 10_000] * 20})
    nearkin.passages(rows, min_tokens=2)
    assert 20 * len("one two three") <= sizes[0] < 1000


def test_bytes_are_those_of_the_original_text() -> None:
    texts = [
        "Er sagte: „Die STRASSE ist naïve ﬁnal“, und ging weiter.",
        "wann? die strasse\u2009ist nai\u0308ve FINAL und dann kam 中文字",
        "x 中文字! Die Strasse (ist) naïve",
    ]
    rows = passages_of(texts, 3).to_pylist()
    quoted = {
        (row["document"], texts[row["document"]].encode()[row["start"] : row["end"]].decode())
        for row in rows
    }
    assert quoted == {
        (0, "Die STRASSE ist naïve ﬁnal“, und"),
        (1, "die strasse\u2009ist nai\u0308ve FINAL und"),
        (1, "中文字"),
        (2, "中文字"),
        (2, "Die Strasse (ist) naïve"),
    }


def test_passage_points_to_its_first_place_and_the_first_place_to_the_second() -> None:
    text = "the very same words in three documents"
    rows = passages_of([text, f"well, {text}", f"{text} again"], 5).to_pylist()
    assert [(row["document"], row["repeats_document"], row["places"]) for row in rows] == [
        (0, 1, 3),
        (1, 0, 3),
        (2, 0, 3),
    ]


def test_documents_and_sources_say_how_much_is_repeated() -> None:
    rows = [
        {"id": "a", "text": "one two three four five, six", "site": "x"},
        {"id": "b", "text": "zero one two three four", "site": "x"},
        {"id": "c", "text": "nothing", "site": None},
    ]
    result = nearkin.passages(rows, id="id", min_tokens=4, source="site")
    assert result.documents.to_pylist() == [
        {
            "id": "a",
            "bytes": 28,
            "source": "x",
            "repeated_bytes": 18,
            "share": 18 / 28,
            "passages": 1,
        },
        {
            "id": "b",
            "bytes": 23,
            "source": "x",
            "repeated_bytes": 18,
            "share": 18 / 23,
            "passages": 1,
        },
        {"id": "c", "bytes": 7, "source": None, "repeated_bytes": 0, "share": 0.0, "passages": 0},
    ]
    assert result.sources.to_pylist() == [
        {
            "source": "x",
            "documents": 2,
            "text_bytes": 51,
            "repeated_bytes": 36,
            "share": 36 / 51,
        },
        {"source": None, "documents": 1, "text_bytes": 7, "repeated_bytes": 0, "share": 0.0},
    ]
    assert result.frequent.to_pylist() == [
        {"places": 2, "tokens": 4, "id": "a", "start": 0, "end": 18, "text": "one two three four"}
    ]
    assert len(result) == 2
    assert repr(result) == "<PassagesResult: 2 passages in 2 of 3 documents>"


def test_frequent_passages_are_ordered_by_places_and_quoted_from_any_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "QUOTED_BYTES", 9)
    texts = [f"u{number}" for number in range(20_000)]
    texts[100] = texts[19_000] = "rare and long passage of words"
    for number in (15_000, 16_000, 19_999):
        texts[number] = "é frequent passage"
    frequent = nearkin.passages(texts, min_tokens=3).frequent
    assert [(row["places"], row["text"]) for row in frequent.to_pylist()] == [
        (3, "é freque"),
        (2, "rare and "),
    ]


def test_batches_are_small_however_long_ids_and_sources_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = [0, 1, 3000, 1, 2, 900, 5000, 0]
    rows = [{"id": "x" * size, "text": "one two three", "s": "y" * size} for size in sizes]
    rows[3]["s"] = None
    expected = nearkin.passages(rows, id="id", min_tokens=3, source="s")
    monkeypatch.setattr(tables, "BYTES_AT_ONCE", 1000)
    result = nearkin.passages(rows, id="id", min_tokens=3, source="s")
    assert result.passages.arrow.equals(expected.passages.arrow)
    assert result.documents.arrow.equals(expected.documents.arrow)
    for part in tables.divide_rows(np.array(sizes)):
        assert sum(sizes[part]) < 1000 + max(sizes)
        assert sum(sizes[part][1:]) < 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_tokens": 1}, "min_tokens=1 is out of range; it must be from 2 to"),
        ({"min_tokens": 1 << 21}, "is out of range"),
        ({"memory": 1000}, "is too small"),
        ({"workers": 0}, "workers=0"),
        ({"source": "x"}, "no column 'x'|column 'x'"),
        (
            {"spec": nearkin.Spec(measure="cosine", unit="vector", n=4)},
            "runs of words or characters",
        ),
        ({"spec": nearkin.Spec(normalise=("nfkc",))}, "lower is required"),
        ({"spec": nearkin.Spec(normalise=("lower", "email"))}, "leave out the others"),
    ],
)
def test_invalid_option_is_an_error_with_the_value(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        nearkin.passages(["a b c"], **options)  # type: ignore[arg-type]


def test_files_and_rejected_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one two three"}\nnot json\n')
    (tmp_path / "b.jsonl").write_text('{"text": "One two, three"}\n')
    result = nearkin.passages(tmp_path, min_tokens=3)
    assert result.passages["id"].to_pylist() == ["a.jsonl:0000000000", "b.jsonl:0000000000"]
    assert len(result.rejected) == result.statistics["rejected"] == 1


@pytest.mark.full
def test_memory_of_periodic_and_repeated_texts_stays_within_the_bound(tmp_path: Path) -> None:
    """30 MB of one word, two words in turn, and 20,000 documents that end alike.

    The first two are almost as large as a document may be.
    """
    rng = np.random.default_rng(8)
    words = np.array([f"w{number}" for number in range(50_000)])
    notice = " ".join(rng.choice(words, 90))
    texts = ["a " * 15_000_000, "b a " * 7_500_000]
    texts += [" ".join([*rng.choice(words, 200), notice]) for _ in range(20_000)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "texts.parquet")
    line = [sys.executable, "-m", "nearkin", "passages", str(tmp_path / "texts.parquet")]
    line += ["--memory", "1GB", "--out", str(tmp_path / "out"), "--json", "--quiet"]
    ended = subprocess.run(line, capture_output=True, text=True, check=True)
    facts = json.loads(ended.stdout)
    assert facts["counts"]["documents_with_passages"] == 20_002
    assert facts["peak_memory"] < 1_000_000_000


CHARACTERS = nearkin.Spec(unit="chars", n=1)


@pytest.mark.parametrize("least", [2, 5, 12])
def test_passages_of_characters_are_exact(least: int) -> None:
    rng = np.random.default_rng(least)
    letters = np.array(list("日本語の文章abcé "))
    for _ in range(12):
        texts = ["".join(rng.choice(letters, int(rng.integers(0, 60)))) for _ in range(4)]
        texts += [texts[0][3:40] + "終わり", "始め、" + texts[1]]
        texts = [text.replace("、", " ") for text in texts]
        found = passages_of(texts, least, spec=CHARACTERS)
        require_exact(texts, least, found, "chars")


def test_bytes_of_characters_are_those_of_the_original_text() -> None:
    texts = ["図書館は、月曜日に\n休みます。ＡＢＣ", "（図書館は月曜日に休みます）abc"]
    row, other = passages_of(texts, 10, spec=CHARACTERS).to_pylist()
    assert row["tokens"] == 15
    found = [texts[one["document"]].encode()[one["start"] : one["end"]] for one in (row, other)]
    assert found[0].decode() == "図書館は、月曜日に\n休みます。ＡＢＣ"
    assert found[1].decode() == "図書館は月曜日に休みます）abc"


def test_unknown_units_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "x"}\n')
    command = ["passages", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out")]
    assert run([*command, "--unit", "char"]) == 2
    assert "--unit char is not one of words, chars" in " ".join(capsys.readouterr().err.split())
