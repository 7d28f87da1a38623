"""What a machine does per second: measured by `nearkin plan --calibrate`, else the shipped figures, and which of the two."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from nearkin.errors import UsageError
from nearkin.runtime.jit import user_folder

FILE = "calibration.json"
STAGES = ("start", "sketch", "collapse", "candidates", "verify", "cluster", "write")
"""Of a local run; `start` is what a process takes before, between and after them."""


@dataclass(frozen=True)
class StageRate:
    """Seconds of a stage: fixed + document · documents + byte · bytes of text.

    Attributes:
        fixed: Whatever the corpus.
        document: For each document.
        byte: For each byte of text.
    """

    fixed: float
    document: float
    byte: float

    def seconds(self, documents: float, size: float) -> float:
        """For so many documents and bytes of text."""
        return self.fixed + self.document * documents + self.byte * size


@dataclass(frozen=True)
class Rates:
    """Figures of a machine.

    Attributes:
        machine: Which one, as `nearkin bench` describes it.
        workers: Threads that the stages had.
        stages: By name.
        text: Bytes of text that a core shingles in a second.
        classic: Updates of k-hash MinHash (shingles × k) that a core makes in a second.
        binned: Updates of binned MinHash (R·n, and n for each slot still empty) that a core makes in a second.
        exact: Pairs of documents that a core compares exactly in a second, of about 250 shingles.
        source: Where they come from, in words.
    """

    machine: Mapping[str, Any]
    workers: int
    stages: Mapping[str, StageRate]
    text: float
    classic: float
    binned: float
    exact: float
    source: str = ""

    def seconds(
        self, documents: float, size: float, workers: int, keys: float = 1.0
    ) -> dict[str, float]:
        """Seconds of each stage.

        Args:
            documents: Of the corpus.
            size: Bytes of text.
            workers: Threads; what depends on the corpus is taken to be shared by them.
            keys: Band keys of a document, over those of the calibration.
        """
        out = {}
        for name, rate in self.stages.items():
            variable = rate.seconds(documents, size) - rate.fixed
            shared = 1.0 if name in ("start", "collapse", "cluster") else self.workers / workers
            out[name] = rate.fixed + variable * shared * (keys if name == "candidates" else 1.0)
        return out

    def to_json(self) -> str:
        """As a file holds it."""
        return (
            json.dumps(
                {name: value for name, value in asdict(self).items() if name != "source"}, indent=1
            )
            + "\n"
        )

    @classmethod
    def of_json(cls, text: str, source: str) -> "Rates":
        """From a file.

        Raises:
            UsageError: It is no calibration.
        """
        try:
            values = json.loads(text)
            stages = {name: StageRate(**rate) for name, rate in values.pop("stages").items()}
            return cls(stages=stages, source=source, **values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{source} is no calibration ({error}); write one with nearkin plan --calibrate"
            ) from error


def calibration_file() -> Path:
    """Where the calibration of this machine is kept.

    Raises:
        UsageError: This user has no folder for it.
    """
    folder = user_folder()
    if folder is None:
        raise UsageError(
            "there is no folder to keep a calibration in: set HOME, or NEARKIN_CACHE_DIR"
        )
    return folder / FILE


def known_rates() -> Rates:
    """Of this machine if it was calibrated, else the shipped ones."""
    folder = user_folder()
    if folder is not None and (path := folder / FILE).is_file():
        return Rates.of_json(path.read_text("utf-8"), f"calibrated on this machine ({path})")
    shipped = Rates.of_json(files("nearkin.plan").joinpath(FILE).read_text("utf-8"), "shipped")
    about = f"shipped, of {shipped.machine['cores']} cores of {shipped.machine['processor']}; --calibrate measures this machine"
    return Rates(**{**shipped.__dict__, "source": about})
