"""The sample of a corpus from which `nearkin tune` and `nearkin plan` learn similarities."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nearkin.cli import options as o
from nearkin.cli.printing import print_warnings
from nearkin.runtime.number_range import COUNT
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.settings.setting import INPUT, Need, setting

if TYPE_CHECKING:
    from nearkin.corpus import Columns, FileCorpus
    from nearkin.engine.keywords import RunParameters
    from nearkin.quality.plan.distribution import Distribution
    from nearkin.settings.spec import Spec


@dataclass(frozen=True)
class SampleOptions(o.NamedColumns):
    """The options for a corpus on whose sample the similarities of pairs are observed."""

    text: str | None = None
    tokens: str | None = None
    vector: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    lines: bool = False
    sample: int = setting(
        2000,
        "Number of documents of the corpus that are all compared with each other.",
        INPUT,
        range=COUNT,
    )


OF_A_CORPUS = {
    name: Need("inputs")
    for name in (
        *("text", "tokens", "vector", "sample", "delimiter", "encoding"),
        *("hidden", "follow_links", "include", "exclude"),
    )
}
"""The options that have no effect without a corpus."""


class ObservedInputs(NamedTuple):
    """The similarities in a corpus, if there is one, with its Spec and its columns."""

    distribution: "Distribution | None"
    spec: "Spec"
    corpus: "FileCorpus | None"
    columns: "Columns"


def observe_inputs(
    inputs: list[str] | None,
    sampling: SampleOptions,
    reading: o.SelectionOptions,
    parameters: "RunParameters",
    across: str | None = None,
) -> ObservedInputs:
    """Returns the similarities of the pairs of a corpus, and the Spec."""
    import tempfile

    from nearkin.corpus import FileCorpus, detect_dimensions
    from nearkin.engine.document_frequencies import FrequencyRequest, count_frequencies
    from nearkin.engine.parameters import spec_of
    from nearkin.quality.plan.observe import observe_corpus
    from nearkin.reports.run_warnings import warn_of_inputs
    from nearkin.runtime.progress import Silent
    from nearkin.stages.measures import measure_of
    from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources

    columns = sampling.to_columns()
    if not inputs:
        if parameters.get("measure") == "cosine":
            columns = replace(columns, vector="vector", text=None, joined=(), dimensions=1)
        return ObservedInputs(None, spec_of(parameters, columns), None, columns)
    corpus = FileCorpus.open(inputs, selection=reading.selection)
    print_warnings(warn_of_inputs(corpus, columns))
    columns = detect_dimensions(corpus, columns)
    spec = spec_of(parameters, columns)
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
    return ObservedInputs(distribution, spec, corpus, columns)
