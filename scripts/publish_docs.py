"""Puts a built documentation site into the folder of its version, beside those of other versions.

The folder of all versions also gets `switcher.json`, from which pages list the versions, and an
`index.html` that leads to the newest release, or to `latest` before the first one.

    python scripts/publish_docs.py docs/_build/html site 0.2.0 https://example.org/nearkin
"""

import json
import re
import shutil
import sys
from pathlib import Path

LATEST = "latest"
"""The folder of the main branch."""
VERSION = re.compile(r"\d+(\.\d+)*")


def sort_versions(names: list[str]) -> list[str]:
    """Returns the versions among names of folders, newest first, after `latest`."""
    versions = [name for name in names if VERSION.fullmatch(name)]
    versions.sort(key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    return [LATEST] * (LATEST in names) + versions


def publish(built: Path, site: Path, version: str, address: str) -> None:
    """Copies a site into the folder of its version, and lists all versions.

    Args:
        built: The folder that Sphinx wrote.
        site: The folder of all versions.
        version: The version, or `latest`.
        address: The URL of the folder of all versions.
    """
    shutil.rmtree(site / version, ignore_errors=True)
    shutil.copytree(built, site / version)
    # the site has folders that begin with an underscore, which Pages leaves out without this file
    (site / ".nojekyll").touch()
    versions = sort_versions([path.name for path in site.iterdir() if path.is_dir()])
    releases = [name for name in versions if name != LATEST]
    entries = [{"version": name, "url": f"{address}/{name}/"} for name in versions]
    (site / "switcher.json").write_text(json.dumps(entries, indent=1) + "\n", "utf-8")
    first = (releases or [LATEST])[0]
    (site / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>nearkin</title>'
        f'<meta http-equiv="refresh" content="0; url={first}/">'
        f'<a href="{first}/">The documentation of nearkin</a>\n',
        "utf-8",
    )


if __name__ == "__main__":
    folder, target, name, url = sys.argv[1:]
    publish(Path(folder), Path(target), name, url)
