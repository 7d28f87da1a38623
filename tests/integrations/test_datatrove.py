"""Tests of the blocks, with the executor of datatrove."""

import json
from pathlib import Path

import pytest
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

import nearkin as nk
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.errors import UsageError
from nearkin.integrations.datatrove import NearkinDedup, NearkinIndexFilter, NearkinSignature

TEXT = "the council approved the new budget on tuesday evening after a long debate about schools"


def rows_of(folder: Path) -> dict[str, dict[str, object]]:
    rows = [json.loads(line) for path in sorted(folder.iterdir()) for line in path.open()]
    return {row["id"]: row for row in rows}


def execute(folder: Path, *steps: PipelineStep, tasks: int = 1) -> dict[str, dict[str, object]]:
    """Runs steps over two files, and returns the written rows by id."""
    (folder / "in").mkdir()
    texts = {"a": TEXT, "b": f"{TEXT} and roads", "c": "a dog ran over the hill", "d": TEXT}
    for number, ids in enumerate(("ab", "cd")):
        lines = [json.dumps({"id": id, "text": texts[id], "date": f"2026-0{number}"}) for id in ids]
        (folder / "in" / f"{number}.jsonl").write_text("\n".join(lines))
    executor = LocalPipelineExecutor(
        [
            JsonlReader(str(folder / "in")),
            *steps,
            JsonlWriter(str(folder / "out"), compression=None),
        ],
        tasks=tasks,
        workers=1,
        logging_dir=str(folder / "logs"),
    )
    executor.run()
    return rows_of(folder / "out")


def test_a_pipeline_signs_and_deduplicates(tmp_path: Path) -> None:
    removed = JsonlWriter(str(tmp_path / "removed"), compression=None)
    rows = execute(
        tmp_path, NearkinSignature(), NearkinDedup(removed, ["date"], keep="date asc, length desc")
    )
    assert rows.keys() == {"b", "c"}
    metadata = rows["c"]["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["signature"] == nk.sketch(["a dog ran over the hill"])[0].tolist()
    assert metadata["band_keys"]
    dropped = rows_of(tmp_path / "removed")
    assert {id: row["metadata"]["near_duplicate_of"] for id, row in dropped.items()} == {
        "a": "b",
        "d": "b",
    }


def test_blocked_documents_are_dropped_without_a_kept_one(tmp_path: Path) -> None:
    blocklist = tmp_path / "unwanted.list"
    entries = Blocklist()
    entries.add([TEXT], ["request"])
    entries.save(blocklist)
    settings = tmp_path / "settings.toml"
    settings.write_text(f'blocklist = "{blocklist}"\n')
    removed = JsonlWriter(str(tmp_path / "removed"), compression=None)
    rows = execute(tmp_path, NearkinDedup(removed, settings=str(settings)))
    assert rows.keys() == {"c"}
    dropped = rows_of(tmp_path / "removed")
    assert dropped.keys() == {"a", "b", "d"}
    assert not any("near_duplicate_of" in row["metadata"] for row in dropped.values())


def test_tasks_share_an_index(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    removed = JsonlWriter(str(tmp_path / "removed"), compression=None)
    rows = execute(tmp_path, NearkinIndexFilter(url, exclusion_writer=removed), tasks=2)
    assert rows.keys() == {"a", "c"}
    assert rows_of(tmp_path / "removed").keys() == {"b", "d"}
    again = NearkinIndexFilter(url)
    assert again.filter(Document(TEXT, "a")) is True
    assert again.filter(Document(TEXT, "x")) == (False, "near_duplicate")
    assert [document.id for document in again.run(iter([Document(TEXT, "a")]))] == ["a"]
    assert again._finder._index is None


def test_a_batch_of_one_of_several_tasks_is_refused() -> None:
    with pytest.raises(UsageError, match="documents of one task of 2"):
        list(NearkinDedup().run(iter([]), 0, 2))
    assert list(NearkinDedup().run(iter([]))) == []
