"""Settings that were chosen without labels, and what was tried for them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from nearkin.engine.settings_file import REMARK, Settings, write_settings
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.table_forms import TableForms
from nearkin.runtime.version import VERSION
from nearkin.settings.acceptance import parse_expression
from nearkin.settings.acceptance.expression import describe_briefly

CHOSEN = "settings.toml"
"""The file of an output that holds the settings that were chosen for it."""
TRIED = pa.schema(
    [
        ("shingle", pa.string()),
        ("measure", pa.string()),
        ("threshold", pa.float64()),
        ("removed", pa.int64()),
        ("undoubted", pa.float64()),
        ("accept", pa.string()),
    ]
)
"""The schema of the definitions that were tried."""


@dataclass(frozen=True)
class TriedSettings:
    """A definition of similarity that was tried.

    Attributes:
        shingle: Unit and length of the shingles.
        measure: Measure of similarity.
        threshold: Lowest threshold at which few removals are doubtful. None without such a one.
            With a condition, the smallest similarity for which it can hold.
        removed: Number of sampled documents that it removes as near-duplicates there, or at the
            lowest threshold that was tried.
        undoubted: Estimated number of them that are not doubtful. 0 without a threshold.
        accept: Condition with weights of columns, which decides instead of a threshold, or None.
    """

    shingle: str
    measure: str
    threshold: float | None
    removed: int = 0
    undoubted: float = 0.0
    accept: str | None = None

    def to_settings(self) -> dict[str, object]:
        """Returns the settings as arguments of `dedup`."""
        settings: dict[str, object] = {"shingle": self.shingle, "measure": self.measure}
        if self.accept is not None:
            return {**settings, "accept": self.accept}
        return {**settings, "threshold": self.threshold}


@dataclass(frozen=True, repr=False)
class ChosenSettings(TableForms):
    """Settings that were chosen without labels. As a table, they are the tried definitions.

    Attributes:
        settings: Arguments of `dedup` and `pairs`.
        tried: Definitions of similarity that were tried, in order.
        documents: Number of documents of the corpus.
        sampled: Number of documents that were deduplicated.
        warnings: Reasons to distrust the choice.
        is_default: True if nothing better was found than the settings of a run without options.
        reason: Why they were chosen, if not for what was tried.
        peak_memory: Peak memory of the choice of a run, in bytes.
    """

    settings: Mapping[str, object]
    tried: tuple[TriedSettings, ...]
    documents: int
    sampled: int
    warnings: tuple[str, ...]
    is_default: bool = False
    reason: str = ""
    peak_memory: int = 0

    def __repr__(self) -> str:
        return f"<ChosenSettings: {self.describe()}>"

    def to_arrow(self) -> pa.Table:
        """Returns the definitions that were tried, with the attributes of `TriedSettings`."""
        return pa.Table.from_pylist([asdict(tried) for tried in self.tried], TRIED)

    def describe(self) -> str:
        """Returns the settings in words, and the reason."""
        values = {
            name: "+".join(value) if isinstance(value, list) else value
            for name, value in self.settings.items()
        }
        if isinstance(accept := values.get("accept"), str):
            values["accept"] = describe_briefly(parse_expression(accept))
        described = ", ".join(f"{name} {value}" for name, value in values.items())
        return f"{described} ({self.reason})" if self.reason else described

    def to_dict(self) -> dict[str, object]:
        """Returns the choice as a JSON object, without the memory that it took."""
        values = asdict(self)
        del values["peak_memory"]
        return values

    @check_arguments
    def write(self, path: str | Path) -> None:
        """Writes a settings file, whose comment says what was tried.

        Args:
            path: The file, for example `settings.toml`. An existing file is replaced.

        Raises:
            OSError: If the file cannot be written.
        """
        remarks = [
            f"{REMARK} {VERSION}, without labels, from {self.sampled:,} of {self.documents:,} "
            "documents.",
            *([f"These are {self.reason}."] if self.reason else []),
            *(self._describe(tried) for tried in self.tried),
        ]
        write_settings(path, Settings(self.settings), remarks)

    def _describe(self, tried: TriedSettings) -> str:
        name = f"{tried.shingle} {tried.measure}"
        if tried.accept is not None:
            name += " with weights of columns"
        if tried.threshold is None:
            return f"{name}: no threshold at which few removals are doubtful"
        return f"{name} from {tried.threshold:g}: {tried.undoubted:,.0f} removals without doubt"
