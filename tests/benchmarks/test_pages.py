"""The README and the page of benchmarks have the figures and versions of the records."""

import json

from benchmarks.pages import HERE, ROOT, benchmarks_page, mark_block, readme_blocks

ADVICE = "run python -m benchmarks.pages"


def test_readme_has_the_blocks_of_the_records() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for name, text in readme_blocks().items():
        assert mark_block(name, text) in readme, ADVICE


def test_page_of_benchmarks_has_the_figures_of_the_records() -> None:
    page = (ROOT / "docs" / "contributing" / "benchmarks.md").read_text("utf-8")
    assert page == benchmarks_page(), ADVICE


def test_readme_names_the_versions_of_peers_that_were_measured() -> None:
    block = readme_blocks()["peers"]
    systems = json.loads((HERE / "peers.json").read_text("utf-8"))["systems"]
    for system in systems:
        assert f"| {system['name']} | {system['version']} | {system['seconds']:.1f} |" in block
    readme = (ROOT / "README.md").read_text("utf-8").replace(mark_block("peers", block), "")
    for system in systems:
        assert f"{system['name']} {system['version']}" not in readme
