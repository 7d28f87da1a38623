"""Tests of the folder of all versions of the documentation site."""

import json
from pathlib import Path

from scripts.publish_docs import publish, sort_versions


def test_versions_are_sorted_by_their_numbers() -> None:
    names = ["0.9.0", "assets", "0.10.0", "latest", ".git"]
    assert sort_versions(names) == ["latest", "0.10.0", "0.9.0"]


def test_each_version_has_a_folder_and_the_newest_release_is_the_first_page(
    tmp_path: Path,
) -> None:
    built = tmp_path / "html"
    site = tmp_path / "site"
    built.mkdir()
    site.mkdir()
    for version in ("latest", "0.9.0", "0.10.0", "0.9.0"):
        (built / "index.html").write_text(version)
        publish(built, site, version, "https://example.org/nearkin")
    assert (site / "0.9.0" / "index.html").read_text() == "0.9.0"
    assert 'href="0.10.0/"' in (site / "index.html").read_text()
    assert json.loads((site / "switcher.json").read_text())[1] == {
        "version": "0.10.0",
        "url": "https://example.org/nearkin/0.10.0/",
    }
    assert (site / ".nojekyll").exists()
