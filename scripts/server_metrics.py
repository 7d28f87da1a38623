"""Lists the metrics that a server declares, without starting one."""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from nearkin.service.server.resources import ServerResources
from nearkin.service.server.service import Service
from nearkin.service.server.settings import ServerSettings
from nearkin.service.server.telemetry import Instruments


class DeclaredMetric(NamedTuple):
    """A metric as Prometheus shows it.

    Attributes:
        name: The name with the suffixes of its unit and kind.
        kind: `counter`, `histogram` or `gauge`.
        description: The description that the code gives.
    """

    name: str
    kind: str
    description: str


class RecordingMeter:
    """A meter and its provider in one, which notes what is declared and measures nothing."""

    def __init__(self) -> None:
        self.declared: list[DeclaredMetric] = []

    def get_meter(self, *_: Any, **__: Any) -> "RecordingMeter":
        """Returns the meter itself."""
        return self

    def _note(self, kind: str, name: str, unit: str, description: str) -> None:
        suffix = {"s": "_seconds"}.get(unit, "") + ("_total" if kind == "counter" else "")
        self.declared.append(DeclaredMetric(name + suffix, kind, description))

    def create_counter(self, name: str, unit: str = "", description: str = "") -> None:
        """Notes a counter.

        Args:
            name: Name of the metric.
            unit: Unit of the metric.
            description: Description of the metric.
        """
        self._note("counter", name, unit, description)

    def create_histogram(self, name: str, unit: str = "", description: str = "", **_: Any) -> None:
        """Notes a histogram.

        Args:
            name: Name of the metric.
            unit: Unit of the metric.
            description: Description of the metric.
            **_: Further parameters of the interface, which are ignored.
        """
        self._note("histogram", name, unit, description)

    def create_observable_counter(
        self, name: str, callbacks: Any = None, unit: str = "", description: str = ""
    ) -> None:
        """Notes a counter that is read when it is asked for.

        Args:
            name: Name of the metric.
            callbacks: Functions that read the metric. They are not called.
            unit: Unit of the metric.
            description: Description of the metric.
        """
        self._note("counter", name, unit, description)

    def create_observable_gauge(
        self, name: str, callbacks: Any = None, unit: str = "", description: str = ""
    ) -> None:
        """Notes a gauge.

        Args:
            name: Name of the metric.
            callbacks: Functions that read the metric. They are not called.
            unit: Unit of the metric.
            description: Description of the metric.
        """
        self._note("gauge", name, unit, description)


def declared_metrics() -> list[DeclaredMetric]:
    """Returns the metrics that a server declares, in the order of their declaration."""
    meter = RecordingMeter()
    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings.read(
            store="memory://",
            tokens=Path(folder) / "tokens.json",
            key_file=str(Path(folder) / "key"),
            console=False,
        )
        resources = ServerResources.open(settings)
        try:
            Service(settings, resources, Instruments(meter))  # type: ignore[arg-type]
        finally:
            resources.close()
    return meter.declared
