"""Suites: read from files, saved, read again, and shared without their words."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import nearkin
from nearkin.errors import IncompatibleError, KeyRequiredError, UsageError
from nearkin.settings.keys import HashKey
from nearkin.texts.decontamination.suite_file import (
    FACTS,
    is_suites_file,
    read_suites,
    write_suites,
)
from nearkin.texts.decontamination.suite_inputs import SuiteColumns, open_suites, suites_of_data
from nearkin.texts.decontamination.suites import Suites, flatten_value, merge_suites

MEMORY = 1 << 30
KEY = HashKey(bytes(range(16)))
ITEMS = [
    {
        "id": "q1",
        "question": "Which of the northern rivers freezes first when winter comes early, and why?",
        "answer": "The smallest one, because its water is slow and doesn't mix with the sea.",
        "options": ["the smallest", "the largest"],
    },
    {"id": "q2", "question": "What is ice?", "answer": "Water", "options": []},
]


def suites_of(key: HashKey | None = None) -> Suites:
    table = pa.Table.from_pylist(ITEMS)
    return suites_of_data({"rivers": table}, SuiteColumns(id="id"), key, MEMORY)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "suites.arrow"
    write_suites(path, suites_of())
    return path


def test_saved_suites_are_read_as_they_were(saved: Path) -> None:
    before, after = suites_of(), read_suites(saved)
    assert is_suites_file(saved)
    assert after.fingerprint == before.fingerprint
    assert after.suites == before.suites
    assert after.items.equals(before.items)
    for name in ("part_items", "part_fields", "offsets", "rarity", "tokens"):
        assert np.array_equal(getattr(after, name), getattr(before, name))


def test_keyed_suites_hold_fingerprints_and_no_words(tmp_path: Path) -> None:
    path = tmp_path / "keyed.arrow"
    keyed = suites_of(KEY)
    write_suites(path, keyed.without_words(8))
    table = pa.ipc.open_file(path).read_all()
    assert table["tokens"].combine_chunks().flatten().to_pylist() == []
    stored = set(table["fingerprints"].combine_chunks().flatten().to_pylist())
    assert len(stored) > 10
    assert not stored & set(keyed.tokens.tolist())
    assert b"rivers freezes" not in path.read_bytes()
    # The short item has no fingerprint of 8 words.
    assert read_suites(path).items["id"].to_pylist() == ["q1"]
    texts = [f"Quiz: {ITEMS[0]['question']}", "What is ice? Water"]
    found = nearkin.decontaminate(texts, path, key=KEY)
    assert found.documents["document"].to_pylist() == [0]
    assert found.suites.to_pylist()[0]["not_searched"] == 1
    built = rf"the suites .*keyed\.arrow were built with the key {KEY.id}, and "
    with pytest.raises(KeyRequiredError, match=f"{built}no key was given; give the key"):
        nearkin.decontaminate(texts, path)
    other = HashKey(bytes(16))
    with pytest.raises(KeyRequiredError, match=f"{built}the key given is {other.id}; give"):
        nearkin.decontaminate(texts, path, key=other)
    with pytest.raises(IncompatibleError, match="fingerprints of 8 words"):
        nearkin.decontaminate(texts, path, key=KEY, operating_point="exact")


def test_words_without_a_key_do_not_become_fingerprints(saved: Path, tmp_path: Path) -> None:
    unkeyed = open_suites([str(saved)], SuiteColumns(), KEY, MEMORY)
    with pytest.raises(KeyRequiredError, match="hashed without a key"):
        unkeyed.without_words(8)
    keyed = suites_of(KEY).without_words(8)
    path = tmp_path / "forged.arrow"
    for spec in (unkeyed.spec, dataclasses.replace(unkeyed.spec, n=5)):
        write_suites(path, dataclasses.replace(keyed, spec=spec))
        with pytest.raises(UsageError, match=r"have no key|not one of single words"):
            read_suites(path)


def test_saved_suites_find_what_their_files_find(saved: Path, tmp_path: Path) -> None:
    source = tmp_path / "rivers.jsonl"
    source.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    texts = [ITEMS[0]["question"], ITEMS[0]["answer"], "What is ice? It is water.", "other"]
    from_files = nearkin.decontaminate(texts, source, suite_id="id")
    from_saved = nearkin.decontaminate(texts, [saved])
    assert from_files.documents["document"].to_pylist() == [0, 1, 2]
    assert from_saved.hits.arrow.equals(from_files.hits.arrow)


def test_saved_and_keyed_suites_are_searched_together(tmp_path: Path) -> None:
    keyed = tmp_path / "keyed.arrow"
    write_suites(keyed, suites_of(KEY).without_words(8))
    table = pa.table({"question": ["How many boats crossed the bay on the second day of spring?"]})
    pq.write_table(table, tmp_path / "boats.parquet")
    texts = [ITEMS[0]["question"], table["question"][0].as_py()]
    found = nearkin.decontaminate(texts, [keyed, tmp_path / "boats.parquet"], key=KEY)
    rows = found.suites.to_pylist()
    assert [(row["suite"], row["contaminated_items"]) for row in rows] == [
        ("boats", 1),
        ("rivers", 1),
    ]


def test_suites_of_one_name_and_of_other_keys_are_refused() -> None:
    with pytest.raises(UsageError, match="two suites have the name 'rivers'"):
        merge_suites([suites_of(), suites_of()])
    with pytest.raises(IncompatibleError):
        merge_suites([suites_of(), suites_of(KEY)])


def test_files_that_are_no_suites_are_refused(tmp_path: Path) -> None:
    for nothing in ([], {}):
        with pytest.raises(UsageError, match="names no suite"):
            nearkin.decontaminate(["a text"], nothing)
    text = tmp_path / "notes.txt"
    text.write_text("a text")
    with pytest.raises(UsageError, match="none of the fields"):
        open_suites([str(text)], SuiteColumns(), None, MEMORY)
    empty = tmp_path / "empty.parquet"
    empty.write_bytes(b"")
    with pytest.raises(UsageError, match=r"empty\.parquet"):
        open_suites([str(empty)], SuiteColumns(), None, MEMORY)
    with pytest.raises(UsageError, match="no such file"):
        open_suites([str(tmp_path / "missing.jsonl")], SuiteColumns(), None, MEMORY)


def test_damaged_files_are_refused(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    for size in (0, 7, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:size])
        with pytest.raises(UsageError, match="cannot read"):
            read_suites(saved)
    rng = np.random.default_rng(1)
    for place in rng.integers(0, len(content), 60).tolist():
        changed = bytearray(content)
        changed[place] ^= 0x41
        saved.write_bytes(changed)
        try:
            fingerprint = read_suites(saved).fingerprint
        except (UsageError, IncompatibleError):
            continue
        assert fingerprint == suites_of().fingerprint


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("words", [0, 8, 8, 1]),
        ("item", [0, 2, 3, 3]),
        ("item", [1, 1, 1, 1]),
        ("copies", [0, 1, 1, 1]),
        ("suite", ["x", "x", "x", "x"]),
        ("field", ["y", "y", "y", "y"]),
        ("rarity", [[2.0], [1.0], [1.0], [1.0]]),
        ("tokens", [[1], [], [1], [1]]),
        ("fingerprints", [[1], [1], [1], [1]]),
        ("id", [None, "a", "a", "a"]),
    ],
)
def test_rows_that_do_not_fit_together_are_refused(
    column: str, values: list[object], saved: Path
) -> None:
    """A file of a stranger, with a checksum of its own."""
    table = pa.ipc.open_file(saved).read_all()
    repeated = (values * len(table))[: len(table)]
    position = table.column_names.index(column)
    changed = table.set_column(
        position, table.schema.field(position), pa.array(repeated, table.schema.types[position])
    )
    with pa.OSFile(str(saved), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(changed)
    with pytest.raises(UsageError, match="cannot read the suites"):
        read_suites(saved)


def test_files_that_unfold_into_more_memory_are_refused(saved: Path) -> None:
    table = pa.ipc.open_file(saved).read_all()
    rows = pa.table({name: table[name].take(pa.array([0] * 50_000)) for name in table.schema.names})
    rows = rows.cast(table.schema).replace_schema_metadata(table.schema.metadata)
    for compression in ("zstd", "lz4"):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with (
            pa.OSFile(str(saved), "wb") as sink,
            pa.ipc.new_file(sink, rows.schema, options=options) as writer,
        ):
            writer.write_table(rows)
        assert is_suites_file(saved)
        assert saved.stat().st_size < rows.nbytes / 8
        with pytest.raises(UsageError, match="take more memory than the file has bytes"):
            read_suites(saved)


def test_files_of_another_schema_or_beyond_the_memory_are_refused(saved: Path) -> None:
    with pytest.raises(UsageError, match="more than memory=1000; give at least"):
        open_suites([str(saved)], SuiteColumns(), None, 1000)
    table = pa.ipc.open_file(saved).read_all()
    other = table.drop_columns(["rarity"])
    with pa.OSFile(str(saved), "wb") as sink, pa.ipc.new_file(sink, other.schema) as writer:
        writer.write_table(other)
    with pytest.raises(UsageError, match="the columns are not the expected ones"):
        read_suites(saved)


def test_newer_versions_are_refused(saved: Path) -> None:
    table = pa.ipc.open_file(saved).read_all()
    facts = json.loads(table.schema.metadata[FACTS]) | {"version": 2}
    changed = table.replace_schema_metadata({FACTS: json.dumps(facts)})
    with pa.OSFile(str(saved), "wb") as sink, pa.ipc.new_file(sink, changed.schema) as writer:
        writer.write_table(changed)
    with pytest.raises(UsageError, match="version 2"):
        read_suites(saved)


def test_facts_that_are_nested_too_deeply_are_refused(saved: Path) -> None:
    table = pa.ipc.open_file(saved).read_all()
    changed = table.replace_schema_metadata({FACTS: b"[" * 100_000})
    with pa.OSFile(str(saved), "wb") as sink, pa.ipc.new_file(sink, changed.schema) as writer:
        writer.write_table(changed)
    with pytest.raises(UsageError, match="while decoding a JSON array"):
        read_suites(saved)


def test_values_of_lists_and_objects_are_texts(tmp_path: Path) -> None:
    options = {"text": ["They swim across the wide river at night", "They wait for the ferry"]}
    question = "How do the animals of the island reach the shore in the autumn months?"
    rows = [{"question": question, "choices": options}]
    path = tmp_path / "island.json"
    path.write_text(json.dumps(rows))
    found = nearkin.decontaminate(
        ["They swim across the wide river at night. They wait for the ferry."],
        path,
        suite_fields=["question", "choices"],
    )
    assert found.hits["field"].to_pylist() == ["choices"]


LONG_TEXT = "which of these nine words is the very first"
ODD_ITEMS = [
    {"question": LONG_TEXT},
    {"question": None, "answer": f"{LONG_TEXT} one"},
    {"question": [f"{LONG_TEXT} two", "and then"], "answer": "x"},
    {"question": {"de": f"{LONG_TEXT} three", "year": 1999}},
    {"question": 17, "answer": f"{LONG_TEXT} four"},
]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "csv"])
def test_items_need_neither_the_first_field_nor_texts(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"odd.{suffix}"
    rows = ODD_ITEMS
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(item) + "\n" for item in rows))
    elif suffix == "csv":
        rows = [rows[0], rows[1], {"answer": rows[4]["answer"]}]
        path.write_text(
            "question,answer\n"
            + "".join(f"{row.get('question') or ''},{row.get('answer', '')}\n" for row in rows)
        )
    else:
        rows = [{"question": [f"{LONG_TEXT} two"], "answer": 4}, {"question": None, "answer": 5}]
        pq.write_table(pa.Table.from_pylist(rows), path)
    suites = open_suites([str(path)], SuiteColumns(), None, MEMORY)
    assert suites.suites[0].items == len(rows)
    assert suites.items["id"].to_pylist() == [str(number) for number in range(len(rows))]


def test_turns_of_a_conversation_are_a_field(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    path.write_text(json.dumps({"turns": [LONG_TEXT, "and why do you think so?"]}))
    texts = ["other", f"{LONG_TEXT}\nand why do you think so"]
    found = nearkin.decontaminate(texts, path, suite_fields=["turns"])
    assert found.documents["document"].to_pylist() == [1]


def test_file_of_one_text_is_an_item(tmp_path: Path) -> None:
    path = tmp_path / "riddle.txt"
    path.write_text(LONG_TEXT)
    found = nearkin.decontaminate([LONG_TEXT, "other"], path, suite_fields=["text"])
    assert found.documents["document"].to_pylist() == [0]


def test_deep_values_are_read_to_their_end() -> None:
    text = "[" * 1000 + json.dumps(LONG_TEXT) + "]" * 1000
    assert flatten_value(text) == LONG_TEXT
