"""The sample of a corpus from which `nearkin tune` and `nearkin plan` learn similarities."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nearkin.cli import options as o
from nearkin.cli.printing import print_warnings
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.settings.setting import COUNT, INPUT, Need, Setting

if TYPE_CHECKING:
    from nearkin.quality.plan.distribution import Distribution
    from nearkin.runs.spec_request import SpecRequest
    from nearkin.settings.spec import Spec


@dataclass(frozen=True)
class SampleOptions:
    """The options for a corpus on whose sample the similarities of pairs are observed."""

    text: str | None = None
    tokens: str | None = None
    vector: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    lines: bool = False
    sample: Annotated[
        int,
        Setting(
            "Number of documents of the corpus that are all compared with each other.",
            INPUT,
            range=COUNT,
        ),
    ] = 2000

    @property
    def columns(self) -> o.ColumnOptions:
        """The options for the columns."""
        return o.ColumnOptions(
            self.text,
            self.tokens,
            self.vector,
            delimiter=self.delimiter,
            encoding=self.encoding,
            lines=self.lines,
        )


OF_A_CORPUS = {
    name: Need("inputs")
    for name in (
        *("text", "tokens", "vector", "sample", "delimiter", "encoding"),
        *("hidden", "follow_links", "include", "exclude"),
    )
}
"""The options that have no effect without a corpus."""


def observe_inputs(
    inputs: list[str] | None,
    sampling: SampleOptions,
    reading: o.SelectionOptions,
    request: "SpecRequest",
    across: str | None = None,
) -> "tuple[Distribution | None, Spec]":
    """Returns the similarities of the pairs of a corpus, and the Spec."""
    import tempfile

    from nearkin.corpus import FileCorpus, detect_dimensions
    from nearkin.engine.document_frequencies import FrequencyRequest, count_frequencies
    from nearkin.quality.plan.observe import observe_corpus
    from nearkin.reports.run_warnings import warn_of_inputs
    from nearkin.runtime.progress import Silent
    from nearkin.stages.measures import measure_of
    from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources

    columns = sampling.columns.to_columns()
    if not inputs:
        if request.measure == "cosine":
            columns = replace(columns, vector="vector", text=None, joined=(), dimensions=1)
        return None, request.to_spec(columns)
    corpus = FileCorpus.open(inputs, selection=reading.selection)
    print_warnings(warn_of_inputs(corpus, columns))
    columns = detect_dimensions(corpus, columns)
    spec = request.to_spec(columns)
    workers = workers_or_cores(None)
    resources = NO_RESOURCES
    if spec.uses_frequencies:
        counting = FrequencyRequest(
            corpus, columns, spec, resources, workers, Path(tempfile.gettempdir()), Silent()
        )
        resources = SpecResources(frequencies=count_frequencies(counting))
        spec = resources.complete(spec)
    distribution = observe_corpus(
        corpus,
        columns,
        measure_of(spec, resources),
        sampling.sample,
        workers=workers,
        across=across,
    )
    return distribution, spec
