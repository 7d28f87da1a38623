"""Tests of the words of users in the search of the documentation site."""

import json
from pathlib import Path

import pytest

from scripts.search_words import FILE, read_words

pytest.importorskip("myst_parser")
from sphinx.application import Sphinx

DOCS = Path(__file__).parents[2] / "docs"
SEARCHED = (
    "leakage",
    "jupyter",
    "excel",
    "fastapi",
    "deterministic",
    "dedupe",
    "plagiarism",
    "pandas",
    "gpu",
    "embeddings",
)


def test_words_that_users_search_lead_to_pages_that_exist() -> None:
    words = read_words(DOCS)
    assert [page for page in words if not (DOCS / f"{page}.md").is_file()] == []
    assert set(SEARCHED) <= {word for listed in words.values() for word in listed}


def test_built_search_index_finds_the_pages_of_the_words(tmp_path: Path) -> None:
    """Sphinx builds a site of empty pages with the words of the documentation."""
    words = read_words(DOCS)
    source = tmp_path / "docs"
    for page in words:
        path = source / f"{page}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Page {page}\n")
    pages = "\n".join(words)
    (source / "index.md").write_text(f"# Index\n\n```{{toctree}}\n{pages}\n```\n")
    (source / FILE).write_bytes((DOCS / FILE).read_bytes())
    built = tmp_path / "html"
    app = Sphinx(
        source,
        None,
        built,
        tmp_path / "doctrees",
        "html",
        confoverrides={"extensions": ["myst_parser", "scripts.search_words"]},
        status=None,
        warningiserror=True,
    )
    app.build()
    text = (built / "searchindex.js").read_text("utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    names = index["docnames"]
    for page, listed in words.items():
        for word in listed:
            assert page in {names[entry[0]] for entry in index["indexentries"][word]}, word
