"""The comparison of a tag with the versions in the repository."""

from pathlib import Path

from scripts.check_release import find_differences

DISTRIBUTIONS = [
    "dist/nearkin-1.2.0-py3-none-any.whl",
    "dist/nearkin-1.2.0-cp313-cp313-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    "dist/nearkin-1.2.0.tar.gz",
]


def write_repository(root: Path, changelog: str = "1.2.0") -> None:
    (root / "CITATION.cff").write_text("version: 1.2.0\n")
    (root / "CHANGELOG.md").write_text(f"## Unreleased\n\n## {changelog} - 2026-01-02\n")


def test_tag_of_the_version_has_no_differences(tmp_path: Path) -> None:
    write_repository(tmp_path)
    assert find_differences("v1.2.0", DISTRIBUTIONS, tmp_path) == []
    assert len(find_differences("v1.3.0", DISTRIBUTIONS, tmp_path)) == 5


def test_version_without_a_section_in_the_changelog_is_named(tmp_path: Path) -> None:
    write_repository(tmp_path, "1.1.0")
    assert find_differences("v1.2.0", DISTRIBUTIONS, tmp_path) == [
        "CHANGELOG.md has the version 1.1.0, and the tag is v1.2.0"
    ]


def test_second_version_of_the_citation_is_compared(tmp_path: Path) -> None:
    write_repository(tmp_path)
    with (tmp_path / "CITATION.cff").open("a") as file:
        file.write("preferred-citation:\n  version: 1.1.0\n")
    assert find_differences("v1.2.0", DISTRIBUTIONS, tmp_path) == [
        "CITATION.cff has the version 1.2.0 and 1.1.0, and the tag is v1.2.0"
    ]


def test_distribution_of_a_later_commit_is_named(tmp_path: Path) -> None:
    write_repository(tmp_path)
    name = "dist/nearkin-1.2.1.dev3+g1a2b3c4.tar.gz"
    assert find_differences("v1.2.0", [name], tmp_path) == [
        f"{name} has the version 1.2.1.dev3+g1a2b3c4, and the tag is v1.2.0"
    ]
