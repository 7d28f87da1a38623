"""Tests that pages mention only pages, files and objects that exist."""

import importlib
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
MENTION = re.compile(r"\bdocs/[\w/.-]+\.(?:md|json|svg|png)\b")
SOURCE_FILE = re.compile(r"`((?:nearkin|tests|scripts|conformance|deploy)/[\w/.-]+\.\w+)`")
DOTTED_NAME = re.compile(r"\b(nearkin(?:\.[a-z_]+)+)\.([A-Za-z_]+)\b")
EXTERNAL = re.compile(r"""(?:src|href|url\()\s*=?\s*["']?https?://(?!www\.w3\.org)""")


def tracked_files(*patterns: str) -> list[Path]:
    """Returns the files of the repository that match the patterns."""
    line = ["git", "ls-files", *patterns]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.splitlines()]


def test_every_mentioned_page_exists() -> None:
    missing = set()
    for path in tracked_files(
        "*.py", "*.yml", "*.yaml", "*.toml", "*.sh", "*.js", "*.md", "Makefile"
    ):
        if path.name == "CHANGELOG.md" or path.parent == Path(__file__).parent:
            continue
        for found in MENTION.finditer(path.read_text("utf-8")):
            if not (ROOT / found[0]).exists():
                missing.add(f"{path.relative_to(ROOT)}: {found[0]}")
    assert not missing


def test_pictures_load_nothing_from_elsewhere() -> None:
    for path in tracked_files("docs/_static/*.svg", "docs/_static/*.css"):
        assert not EXTERNAL.search(path.read_text("utf-8")), path.name


def test_pictures_are_small() -> None:
    for path in tracked_files("docs/_static/*.svg", "docs/_static/*.png"):
        assert path.stat().st_size < 150_000, path.name


def test_every_mentioned_source_file_exists() -> None:
    for page in tracked_files("docs/*.md", "*.md"):
        if page.name != "CHANGELOG.md":
            for name in SOURCE_FILE.findall(page.read_text("utf-8")):
                assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_every_mentioned_object_exists() -> None:
    for page in tracked_files("docs/*.md"):
        for module, name in DOTTED_NAME.findall(page.read_text("utf-8")):
            found = importlib.import_module(module)
            if not hasattr(found, name):
                # the libraries that the module needs may be missing
                assert find_spec(f"{module}.{name}") is not None
