import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine.removal_limit import LEAST_DOUBTED, SHORT_TEXT
from nearkin.errors import RunError, UsageError

COPIED = "a text of some words that is copied often"
TABLE = {
    "text": [COPIED] * 4 + ["another text of one source", "quite different words again here"],
    "source": ["web", "web", "web", None, "web", "book"],
}


def test_a_run_that_removes_too_much_of_one_value_is_refused_with_the_cluster() -> None:
    with pytest.raises(RunError) as caught:
        nk.dedup(TABLE, max_removed="source:0.4")
    message = str(caught.value)
    assert "would remove 1 of 1 documents (100%) with source (none)" in message
    assert "'0000000000' removes 1" in message


def test_a_run_that_removes_as_much_as_it_may_is_complete() -> None:
    web_only = {name: [*values[:3], *values[4:]] for name, values in TABLE.items()}
    assert nk.dedup(web_only, max_removed="source:0.5").kept.sum() == 3
    with pytest.raises(
        RunError, match=r"would remove 2 of 4 documents \(50.0%\) with source 'web'"
    ):
        nk.dedup(web_only, max_removed="source:0.49")


def test_empty_inputs_are_within_every_limit() -> None:
    assert nk.dedup({"text": [], "source": []}, max_removed="source:0").kept.tolist() == []


@pytest.mark.parametrize(
    "limit",
    [
        "source",
        ":0.5",
        "source:",
        "source:1.5",
        "source:x",
        "source:nan",
        "",
        "1.5",
        -0.1,
        "0.5,0.6",
        "source:0.5,source:0.6",
        "0.5,",
    ],
)
def test_a_limit_that_is_not_valid_is_refused(limit: float | str) -> None:
    with pytest.raises(UsageError, match=r"write it as SHARE, for example 0\.9"):
        nk.dedup(TABLE, max_removed=limit)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UsageError, match="sorce"):
        nk.dedup(TABLE, max_removed="sorce:0.5")


def test_a_refused_command_writes_nothing_and_is_resumed_with_a_higher_limit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "documents.csv"
    rows = [
        f"{text},{source or ''}"
        for text, source in zip(TABLE["text"], TABLE["source"], strict=True)
    ]
    path.write_text("text,source\n" + "\n".join(rows) + "\n")
    out = tmp_path / "out"
    command = ["dedup", str(path), "--out", str(out), "--max-removed"]
    assert run([*command, "source:0.4"]) == 1
    message = capfd.readouterr().err
    assert "allows; nothing was written" in message
    assert message.endswith("or repeat the command with a higher limit and --resume\n")
    assert not out.exists()
    assert run([*command, "source:1", "--resume"]) == 0
    assert out.is_dir()


CITIES = ("London", "Leeds", "Bristol", "York", "Bath", "Derby")
STREETS = ("High Street", "Station Road", "Park Road", "Church Lane")
FIRST_NAMES = ("Anna", "Ben", "Carla", "David", "Eva", "Frank", "Greta", "Hans")
LAST_NAMES = ("Smith", "Jones", "Brown", "Taylor", "Wilson", "Davies")
SIMILAR_PEOPLE = {"shingle": "chars:2", "measure": "idf-jaccard", "threshold": 0.42}
"""Settings with which different people are near-duplicates."""


def make_people(number: int) -> dict[str, list[str]]:
    """Returns people that are all different, with values that many of them share."""
    draw = random.Random(1)
    people: dict[str, list[str]] = {name: [] for name in ("name", "address", "city", "email")}
    for house in range(number):
        first, last = draw.choice(FIRST_NAMES), draw.choice(LAST_NAMES)
        people["name"].append(f"{first} {last}")
        people["address"].append(f"{house} {draw.choice(STREETS)}")
        people["city"].append(draw.choice(CITIES))
        people["email"].append(f"{first}.{last}{draw.randint(10, 99)}@example.org".lower())
    return people


def write_csv(path: Path, table: dict[str, list[str]]) -> None:
    """Writes columns of texts without commas as a CSV file."""
    rows = [",".join(row) for row in zip(*table.values(), strict=True)]
    path.write_text("\n".join([",".join(table), *rows]) + "\n")


@pytest.mark.parametrize(
    "options",
    [
        "--text name",
        "--text city --shingle chars:3",
        "--text name,address,city,email --shingle chars:2 --measure idf-jaccard --threshold 0.42",
    ],
)
def test_command_that_removes_most_documents_writes_nothing_until_it_is_allowed(
    options: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "people.csv"
    write_csv(path, make_people(300))
    out = tmp_path / "out"
    command = ["dedup", str(path), "--out", str(out), *options.split()]
    assert run(command) == 1
    message = capfd.readouterr().err
    assert "as near-duplicates or as copies of texts of at most 24 bytes or with masked" in message
    assert "--max-removed 0.5 allows" in message
    assert "nothing was written" in message
    assert message.count("  removed  ") == message.count("  kept  ") == 3
    assert "lower --threshold" not in message
    assert not out.exists()
    advised = message.rpartition("repeat the command with --max-removed ")[2].split()[0]
    assert run([*command, "--max-removed", advised, "--resume"]) == 0
    assert out.is_dir()


def test_result_that_removes_most_documents_has_a_warning_first_and_strict_raises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    people = make_people(300)
    options: dict[str, Any] = {"text": list(people), **SIMILAR_PEOPLE}
    result = nk.dedup(people, **options)
    removed = 300 - result.kept.sum()
    assert removed > 150
    doubt = result.warnings[0]
    assert doubt.startswith(f"the run removes {removed} of 300 documents")
    assert doubt.count("  removed  ") == 3
    assert doubt in caplog.text
    assert doubt.partition(".")[0] in result.report_data.warnings[0]
    with pytest.raises(RunError, match=r"more than max_removed=0\.5 allows"):
        nk.dedup(people, strict=True, **options)
    with pytest.raises(RunError, match=r"more than max_removed=0\.2 allows"):
        nk.dedup(people, max_removed=0.2, **options)
    allowed = nk.dedup(people, max_removed=1, strict=True, **options)
    assert not any("removes" in warning for warning in allowed.warnings)
    assert result.rethreshold(0.9).warnings == ()


def test_exact_copies_do_not_count_unless_unique_documents_share_such_short_texts() -> None:
    long = [f"the text number {number} of this collection of texts" for number in range(3)]
    assert all(len(text) > SHORT_TEXT for text in long)
    assert nk.dedup(long * 10, strict=True).kept.sum() == 3
    short = [text[:SHORT_TEXT] for text in ("a city with a long name!!!", "Bath")]
    with pytest.raises(RunError, match="removes 18 of 20 documents"):
        nk.dedup(short * 10, strict=True)


def test_quoted_pairs_are_among_those_that_count() -> None:
    long = ["a long text that occurs several times, so that nobody doubts it"] * 5
    with pytest.raises(RunError, match="removes 19 of 21 documents") as caught:
        nk.dedup([*long, *["Bath"] * 20], strict=True)
    quoted = [line for line in str(caught.value).splitlines() if "  removed  " in line]
    assert len(quoted) == 3
    assert all(line.endswith(": Bath") for line in quoted)


def test_few_removed_documents_are_not_doubted() -> None:
    cities = ["Bath"] * LEAST_DOUBTED
    assert nk.dedup(cities, strict=True).kept.sum() == 1
    with pytest.raises(RunError):
        nk.dedup([*cities, "Bath"], strict=True)


def test_documents_between_two_kept_ones_are_doubted() -> None:
    words = map(str, itertools.count())
    texts = []
    for _ in range(LEAST_DOUBTED):
        first, second = (" ".join(itertools.islice(words, 10)) for _ in range(2))
        texts += [first, second, f"{first} {second}"]
    options: dict[str, Any] = {"shingle": "words:1", "threshold": 0.45, "keep": "length asc"}
    result = nk.dedup(texts, **options)
    assert result.kept.sum() == 2 * LEAST_DOUBTED
    between = "10 of them are about as similar to another kept document as to their own"
    assert between in result.warnings[0]
    with pytest.raises(RunError, match=between):
        nk.dedup(texts, max_removed=0.5, **options)
    assert nk.dedup(texts, max_removed=0.9, **options).warnings == ()
    # Each is a copy of one kept document, and unlike the others.
    copies = [text for number, text in enumerate(texts) if number % 3 < 2]
    copies += [f"{text} more" for text in copies[:LEAST_DOUBTED]]
    assert nk.dedup(copies, strict=True, **options).kept.sum() == 2 * LEAST_DOUBTED


def test_documents_of_a_reference_count_as_kept_ones() -> None:
    old = [f"{number} words of a longer text that comes again with a new end" for number in "abc"]
    new = [f"{old[number % 3]} {number}" for number in range(30)]
    result = nk.dedup(new, against=old, threshold=0.7)
    assert not result.kept.any()
    assert "removes 30 of 30 documents" in result.warnings[0]
    assert "kept     '0000000000'\n" in result.warnings[0]


@pytest.mark.parametrize(
    "options", [["--annotate"], ["--output", "none"], ["--document-weights", "sqrt"]]
)
def test_command_that_removes_no_rows_only_warns(
    options: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "people.csv"
    write_csv(path, make_people(50))
    out = tmp_path / "out"
    assert run(["dedup", str(path), "--text", "city", "--out", str(out), *options]) == 0
    assert "the run removes 44 of 50 documents" in capfd.readouterr().err
    report = json.loads((out / "report.json").read_text())
    assert report["warnings"][0].startswith("the run removes 44 of 50 documents")


@pytest.mark.parametrize("answer", [True, False])
def test_answer_on_a_terminal_decides_whether_the_documents_are_removed(
    answer: bool,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    asked = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(typer, "confirm", confirm)
    path = tmp_path / "people.csv"
    write_csv(path, make_people(50))
    out = tmp_path / "out"
    command = ["dedup", str(path), "--text", "city", "--out", str(out)]
    assert run(command) == (0 if answer else 1)
    assert asked == ["Remove these documents?"]
    assert "the run removes 44 of 50 documents" in capfd.readouterr().err
    assert out.exists() == answer


def test_purge_is_not_doubted_again(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    write_csv(path, make_people(50))
    out = tmp_path / "out"
    assert run(["dedup", str(path), "--text", "city", "--out", str(out), "--max-removed", "1"]) == 0
    like = tmp_path / "like.csv"
    like.write_text("text\nYork\n")
    purged = tmp_path / "purged"
    assert run(["purge", str(out), "--like", str(like), "--out", str(purged)]) == 0
    assert (purged / "run.json").exists()


def test_texts_that_differ_in_masked_values_are_not_removed_without_a_word(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [f"2026-11-{1 + row % 28:02}T10:00:{row % 60:02} sensor {row}" for row in range(200)]
    path = tmp_path / "readings.log"
    path.write_text("\n".join(lines))
    out = tmp_path / "out"
    command = ["dedup", str(path), "--lines", "--out", str(out)]
    assert run([*command, "--normalise", "nfkc,lower,date,number"]) == 1
    message = capfd.readouterr().err
    assert "the run removes 199 of 200 documents" in message
    assert "or with masked values, more than --max-removed 0.5 allows" in message
    assert not out.exists()
    allowed = [*command[:-1], str(tmp_path / "allowed")]
    assert run([*allowed, "--preset", "logs"]) == 0
