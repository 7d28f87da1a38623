"""Compares the tag of a release with the versions in the repository and of its distributions.

    python scripts/check_release.py v0.2.0 dist/*

The build derives the version of the package from the tag. CITATION.cff and the distributions must
have it too, and the changelog must have its dated section.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATTERNS = {
    "CITATION.cff": r"^ *version: (.*)$",
    "CHANGELOG.md": r"^## (\d\S*) - \d{4}-\d{2}-\d{2}$",
}
"""The files that name the version, with the pattern of its mentions. A changelog has older ones."""
DISTRIBUTION = r"^nearkin-(.*?)(?:-[\w.]+-\w+-[\w.]+\.whl|\.tar\.gz)$"
"""The names of the files that are published."""


def find_differences(tag: str, distributions: list[str], root: Path = ROOT) -> list[str]:
    """Returns a sentence for each file whose version is not that of a tag.

    Args:
        tag: The tag, for example `v0.2.0`.
        distributions: The paths of the files that are published.
        root: The root of the repository.
    """
    versions = {}
    for name, pattern in PATTERNS.items():
        mentions = re.findall(pattern, (root / name).read_text("utf-8"), re.MULTILINE)
        if name == "CHANGELOG.md":
            del mentions[1:]
        versions[name] = " and ".join(dict.fromkeys(mentions)) or "none"
    for path in distributions:
        match = re.search(DISTRIBUTION, Path(path).name)
        versions[path] = match[1] if match else "none"
    return [
        f"{name} has the version {version}, and the tag is {tag}"
        for name, version in versions.items()
        if f"v{version}" != tag
    ]


def main() -> int:
    """Prints the differences, and returns the exit code."""
    if len(sys.argv) < 3:
        print("usage: python scripts/check_release.py TAG DISTRIBUTIONS...", file=sys.stderr)
        return 2
    differences = find_differences(sys.argv[1], sys.argv[2:])
    for difference in differences:
        print(difference, file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
