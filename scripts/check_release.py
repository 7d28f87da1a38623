"""Compares the tag of a release with the versions in the repository.

    python scripts/check_release.py v0.2.0

The tag, pyproject.toml, nearkin/version.py and CITATION.cff must name one version, and the
changelog must have its dated section.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATTERNS = {
    "nearkin/version.py": r'^VERSION = "(.*)"$',
    "CITATION.cff": r"^version: (.*)$",
    "CHANGELOG.md": r"^## (\d\S*) - \d{4}-\d{2}-\d{2}$",
}
"""The files that name the version, with the pattern of its first mention."""


def find_differences(tag: str, root: Path = ROOT) -> list[str]:
    """Returns a sentence for each file whose version is not that of a tag.

    Args:
        tag: The tag, for example `v0.2.0`.
        root: The root of the repository.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    versions = {"pyproject.toml": project["version"]}
    for name, pattern in PATTERNS.items():
        match = re.search(pattern, (root / name).read_text("utf-8"), re.MULTILINE)
        versions[name] = match[1] if match else "none"
    return [
        f"{name} has the version {version}, and the tag is {tag}"
        for name, version in versions.items()
        if f"v{version}" != tag
    ]


def main() -> int:
    """Prints the differences, and returns the exit code."""
    if len(sys.argv) != 2:
        print("usage: python scripts/check_release.py TAG", file=sys.stderr)
        return 2
    differences = find_differences(sys.argv[1])
    for difference in differences:
        print(difference, file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
