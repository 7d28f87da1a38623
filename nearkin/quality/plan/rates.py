"""The speed of a machine, calibrated with `nearkin plan --calibrate` or shipped with nearkin."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from nearkin.errors import UsageError
from nearkin.runtime.cache_folder import user_folder

CALIBRATION_FILE = "calibration.json"
STAGES = ("start", "sketch", "collapse", "candidates", "verify", "cluster", "write")
"""The stages of a local run. `start` is the time before, between and after the other stages."""
SINGLE_THREADED_STAGES = ("start", "collapse", "cluster")


@dataclass(frozen=True)
class StageRate:
    """The duration of a stage: fixed + document · documents + byte · bytes of text.

    Attributes:
        fixed: Time that does not depend on the corpus, in seconds.
        document: Time for each document, in seconds.
        byte: Time for each byte of text, in seconds.
    """

    fixed: float
    document: float
    byte: float

    def seconds(self, documents: float, size: float) -> float:
        """Returns the duration of the stage in seconds, by documents and their bytes."""
        return self.fixed + self.document * documents + self.byte * size


@dataclass(frozen=True)
class Rates:
    """The speed of a machine.

    Attributes:
        machine: Description of the machine, in the form of `describe_machine`.
        workers: Number of threads with which the stages were measured.
        stages: Rate of each stage by name.
        text: Bytes of text that a core shingles per second.
        classic: Updates of classic MinHash (shingles · k) that a core makes per second.
        binned: Updates of binned MinHash (R·n, and n for each empty slot) that a core makes per
            second.
        exact: Pairs of documents of about 250 shingles that a core compares exactly per second.
        source: Origin of the figures, in words.
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
        self,
        documents: float,
        size: float,
        workers: int,
        *,
        keys: float = 1.0,
        verified: float = 1.0,
    ) -> dict[str, float]:
        """Returns the duration of each stage in seconds, by documents and their bytes."""
        durations = {}
        factors = {"candidates": keys, "verify": verified}
        for name, rate in self.stages.items():
            variable = (rate.seconds(documents, size) - rate.fixed) * factors.get(name, 1.0)
            if name not in SINGLE_THREADED_STAGES:
                variable *= self.workers / workers
            durations[name] = rate.fixed + variable
        return durations

    def to_json(self) -> str:
        """Returns the content of a calibration file."""
        values = {name: value for name, value in asdict(self).items() if name != "source"}
        return json.dumps(values, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, source: str) -> "Rates":
        """Reads the content of a calibration file."""
        try:
            members = json.loads(text)
            stages = {name: StageRate(**rate) for name, rate in members.pop("stages").items()}
            rates = cls(stages=stages, source=source, **members)
            _check_rates(rates)
            return rates
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(
                f"{source} is not a calibration ({error}); write one with nearkin plan --calibrate"
            ) from error


def _check_rates(rates: Rates) -> None:
    if not isinstance(rates.machine, Mapping):
        raise ValueError("machine is not an object")
    if wrong := set(rates.stages) ^ set(STAGES):
        raise ValueError(f"stages are {', '.join(STAGES)}; missing or unknown: {sorted(wrong)}")
    for name in ("workers", "text", "classic", "binned", "exact"):
        _check_number(name, getattr(rates, name), may_be_zero=False)
    for stage, rate in rates.stages.items():
        for name, value in asdict(rate).items():
            _check_number(f"{stage}.{name}", value, may_be_zero=True)


def _check_number(name: str, value: object, *, may_be_zero: bool) -> None:
    is_number = isinstance(value, (int, float)) and 0 <= value < math.inf
    if not is_number or not (value or may_be_zero):
        least = "0 or more" if may_be_zero else "more than 0"
        raise ValueError(f"{name} is {value!r} instead of a number of {least}")


def calibration_file() -> Path:
    """Returns the file with the calibration of this machine."""
    folder = user_folder()
    if folder is None:
        raise UsageError("there is no folder for a calibration; set HOME or NEARKIN_CACHE_DIR")
    return folder / CALIBRATION_FILE


def known_rates() -> Rates:
    """Returns the rates of this machine if it was calibrated, and the shipped rates otherwise."""
    folder = user_folder()
    if folder is not None:
        path = folder / CALIBRATION_FILE
        if path.is_file():
            return Rates.from_json(path.read_bytes(), f"calibrated on this machine ({path})")
    text = files("nearkin.quality.plan").joinpath(CALIBRATION_FILE).read_text("utf-8")
    shipped = Rates.from_json(text, "shipped")
    source = (
        f"shipped, measured on {shipped.machine['cores']} cores of "
        f"{shipped.machine['processor']}; nearkin plan --calibrate measures this machine"
    )
    return replace(shipped, source=source)
