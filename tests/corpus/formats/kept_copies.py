"""Kept copies, documents and rejected rows of files, for tests of formats."""

import json
from pathlib import Path

from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus
from tests.cli.conftest import run

COLUMNS = Columns()


def read_texts(path: Path, columns: Columns = COLUMNS) -> list[str | None]:
    """Returns the documents of a file."""
    corpus = FileCorpus.open([str(path)])
    return [
        text for batch in corpus.batches(columns) for text in batch.documents["text"].to_pylist()
    ]


def read_reasons(path: Path, columns: Columns = COLUMNS) -> list[str]:
    """Returns why rows of a file are not documents."""
    corpus = FileCorpus.open([str(path)])
    return [entry.reason for batch in corpus.batches(columns) for entry in batch.rejected]


def deduplicate(path: Path, *options: object) -> Path:
    """Returns the kept copy of a file."""
    out = path.parent / "out"
    assert run("dedup", path, "--out", out, "--quiet", *options) == app.DONE
    return out / "kept" / path.name


def deduplicate_to_lines(path: Path, *options: object) -> list[dict[str, object]]:
    """Returns the kept documents of a file as objects."""
    out = path.parent / "kept.jsonl"
    assert run("dedup", path, "--out", out, "--quiet", *options) == app.DONE
    return [json.loads(line) for line in out.read_text().splitlines()]
