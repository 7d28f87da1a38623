"""The dataset card of a finished run, as a text or in a README.md."""

import re
from collections.abc import Sequence
from pathlib import Path

from nearkin.corpus.input_manifest import InputRecord
from nearkin.corpus.remote_errors import HUB
from nearkin.errors import UsageError
from nearkin.reports.card import insert_section, render_metadata, render_section
from nearkin.reports.files import read_report
from nearkin.runs.run_record import RUN, FileRun, read_run_record
from nearkin.runtime.files import disk_errors, require_file_path, write_durably

REPOSITORY = re.compile(rf"^(?P<url>{HUB}://datasets/(?P<name>[^/@]+/[^/@]+)@(?P<commit>[^/]+))/")
"""The URL of a file of a dataset at one commit."""


class DatasetCard:
    """The card of the dataset that a run made."""

    def __init__(self, run: Path) -> None:
        record = read_run_record(run / RUN)
        self._inputs: Sequence[InputRecord] = ()
        if isinstance(record, FileRun):
            if record.command != "dedup":
                raise UsageError(
                    f"{run} is the output of nearkin {record.command}; a card describes a "
                    "dataset that nearkin dedup made"
                )
            self._inputs = record.inputs
        self._data = read_report(run)

    @property
    def section(self) -> str:
        """The section with the figures, between two comments that mark it."""
        return render_section(self._data, _name_inputs(self._inputs))

    def update(self, readme: bytes, data_files: str | None = None) -> bytes:
        """Returns the content of a README.md with the current section.

        An empty file also gets metadata. That of another file is not changed.
        """
        if not readme:
            found = (REPOSITORY.match(file["path"]) for file in self._inputs)
            sources = sorted({match["name"] for match in found if match is not None})
            readme = render_metadata(self._data, sources, data_files).encode()
        return insert_section(readme, self.section)

    def write(self, readme: Path) -> None:
        """Writes the section into a README.md, which is created if it does not exist."""
        target = readme.resolve()
        require_file_path(target)
        exists = target.exists()
        content = target.read_bytes() if exists else b""
        updated = self.update(content)
        if updated == content:
            return
        with disk_errors(target.parent):
            mode = target.stat().st_mode if exists else None
            write_durably(target, updated)
            if mode is not None:
                target.chmod(mode)


def _name_inputs(inputs: Sequence[InputRecord]) -> list[str]:
    """Returns the names of inputs: the dataset and its commit, or the name of a file.

    Paths of this machine tell readers of a card nothing.
    """
    names = []
    for file in inputs:
        found = REPOSITORY.match(file["path"])
        names.append(file["name"] if found is None else found["url"])
    return list(dict.fromkeys(names))
