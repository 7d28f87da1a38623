"""`nearkin tune`."""

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.observed_corpus import OF_A_CORPUS, SampleOptions, observe_inputs
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json, print_warnings
from nearkin.cli.settings_option import warn_of_preset_size
from nearkin.runtime.number_range import COUNT, SHARE_ABOVE_0, NumberRange
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.setting import (
    CANDIDATES,
    INPUT,
    MOST_DOCUMENTS,
    OUTPUT,
    SIMILARITY,
    Need,
    setting,
)
from nearkin.settings.table import DEFAULT_STEPS, varied

if TYPE_CHECKING:
    from nearkin.corpus import Columns
    from nearkin.engine.keywords import RunParameters
    from nearkin.quality.fit.decision_fit import DecisionFit
    from nearkin.quality.plan.tune import Tuning


@dataclass(frozen=True)
class SignatureOptions:
    """The options that make the Spec of an operating point."""

    measure: str | None = None
    shingle: str = "words:3"
    normalise: str = DEFAULT_STEPS
    k: int | None = None
    slot_bits: int | None = None

    def to_parameters(self, bands: int | None, rows: int | None, tables: int) -> "RunParameters":
        """Returns the parameters from which the Spec is made."""
        from nearkin.quality.plan.tune import default_spec
        from nearkin.settings.spec import SLOT_MEASURES

        k = self.k
        has_slots = self.measure is None or self.measure in SLOT_MEASURES
        if k is None and bands and rows and has_slots:
            k = -(-default_spec(bands, rows, tables).k // 8) * 8
        return o.parameters_of(replace(self, k=k))

    def require_texts(self) -> None:
        """Requires that the options are for texts."""
        from nearkin.errors import UsageError

        if self.measure == "cosine":
            raise UsageError(
                "--measure cosine compares vectors alone; leave out --text, or give the measure "
                "of the texts"
            )


@partial(with_option_groups, needs=OF_A_CORPUS)
def tune(
    *,
    given: GivenOptions,
    sampling: SampleOptions,
    reading: o.SelectionOptions,
    signature: SignatureOptions,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="Corpus from which the similarities of pairs are learned."),
    ] = None,
    across: str | None = None,
    id_column: Annotated[str | None, varied("id_column", need=Need("decisions"))] = None,
    threshold: float = 0.8,
    decisions: Path | None = setting(
        None,
        "File of decisions about pairs of the inputs, from which the threshold is chosen, and a "
        "condition for `nearkin dedup --accept`.",
        SIMILARITY,
        metavar="FILE",
        excludes={
            "threshold": "the threshold follows from the decisions",
            "across": "decisions are about any two documents",
        },
        need=Need("inputs"),
    ),
    recall: Annotated[
        float,
        varied("recall", excludes={"bands": "given bands and rows are evaluated as they are"}),
    ] = 0.95,
    bands: int | None = None,
    rows: int | None = None,
    vector_threshold: float = setting(
        0.95,
        "Minimum cosine of vectors, in (0, 1]. With --text and --vector, texts are tuned first, "
        "then vectors.",
        SIMILARITY,
        metavar="SHARE",
        range=SHARE_ABOVE_0,
    ),
    preset: str | None = None,
    budget: int | None = setting(
        None,
        "Size of the signature of a document in bytes. Replaces --k.",
        SIMILARITY,
        excludes={"k": "k follows from the budget"},
        metavar="BYTES",
        range=COUNT,
    ),
    documents: int = setting(
        1_000_000,
        "Number of documents, for the expected candidates.",
        INPUT,
        common=True,
        range=NumberRange(1, MOST_DOCUMENTS),
        excludes={"inputs": "the number of documents is that of the inputs"},
    ),
    tables: str = setting(
        "1", "Numbers of independent tables to try, for example 1,2.", CANDIDATES
    ),
    probes: str = setting("0", "Numbers of probes to try, for example 0,3.", CANDIDATES),
    at_most: list[str] | None = setting(
        None,
        "Maximum candidate probability at a similarity, for example 0.05:0.006. May be repeated.",
        CANDIDATES,
        metavar="S:P",
        excludes={"bands": "the limits choose bands and rows"},
    ),
    show: int = setting(
        10, "Number of operating points to show. --json lists all.", OUTPUT, range=COUNT
    ),
    plot: Annotated[Path | None, o.picture_of("the S-curves")] = None,
    json: bool = False,
) -> None:
    """List operating points for a threshold and a recall.

    They are bands, rows, tables and probes, with their cost. With --bands and --rows, only these are evaluated: the similarities at which a pair becomes a candidate with a
    probability of 0.1 %, 50 % and 99 %, and the expected candidates.

    The expected candidates follow from the number of pairs at each similarity, for unrelated documents or in a corpus.

    A corpus is described as well: lengths, repetition, templates, scripts, and where to start with such data.

    Args:
        budget: Size of a signature in bytes, which replaces `k`, or None.

    Examples:
        nearkin tune --threshold 0.8 --recall 0.95

        nearkin tune --bands 20 --rows 5

        nearkin tune "crawl/*.parquet" --threshold 0.7 --plot curves.svg

        nearkin tune docs.parquet --text body --vector embedding

        nearkin tune --measure cosine --threshold 0.9 --documents 10000000
    """  # noqa: E501
    from nearkin.errors import UsageError
    from nearkin.quality.plan.tune import tune as find_operating_points

    has_both = sampling.text is not None and sampling.vector is not None
    if decisions is not None and has_both:
        raise UsageError(f"--decisions {decisions} fits one measure; leave out --text or --vector")
    if has_both:
        signature.require_texts()
        if plot is not None:
            raise UsageError(
                "--plot draws the curves of one kind of documents; leave out --text or --vector"
            )
    elif "vector_threshold" in given:
        raise UsageError(
            "--vector-threshold has an effect with --text and --vector only; give --threshold"
        )
    if across is not None and not inputs:
        raise UsageError(f"--across {across} needs a corpus, whose sources it compares; give files")
    if plot is not None:
        from nearkin.reports.curves import require_plotting
        from nearkin.runtime.outputs import require_picture_output

        require_plotting(plot)
        require_picture_output(plot, inputs or [], "plot")
    table_counts = o.parse_numbers(tables, "--tables")
    probe_counts = o.parse_numbers(probes, "--probes")
    limits = _parse_limits(at_most or [])
    decision_fit = None
    if decisions is not None:
        columns = replace(sampling.to_columns(), id=id_column)
        decision_fit = _fit_decisions(decisions, inputs or [], columns, reading, signature)
        threshold = decision_fit.threshold
    parameters = signature.to_parameters(bands, rows, max(table_counts))
    of_texts = replace(sampling, vector=None) if has_both else sampling
    observed = observe_inputs(inputs, of_texts, reading, parameters, across)
    distribution = observed.distribution
    corpus_size = documents if distribution is None else distribution.documents
    print_warnings(warn_of_preset_size(preset, corpus_size))
    tuning = find_operating_points(
        threshold,
        recall,
        spec=observed.spec,
        budget=budget,
        documents=documents,
        distribution=distribution,
        tables=table_counts,
        probes=probe_counts,
        at_most=limits,
        bands=bands,
        rows=rows,
    )
    if plot is not None:
        from nearkin.reports.curves import draw_file

        draw_file(tuning, tuning.points[:6], plot)
    if not has_both:
        fitted = {} if decision_fit is None else {"decisions": decision_fit.to_dict()}
        if json:
            print_json({**tuning.to_dict(), **fitted})
            return
        if decision_fit is not None:
            sys.stdout.write("\n".join([*decision_fit.describe(), "", ""]))
        _print_tuning(tuning, show)
        if distribution is not None and distribution.profile is not None:
            from nearkin.engine.advice import explain_advice

            advice = explain_advice(tuning.advice, observed.corpus, observed.columns)
            sys.stdout.write(f"\n{advice}\n")
        return
    of_vectors = replace(sampling, text=None)
    observed_vectors = observe_inputs(inputs, of_vectors, reading, {"measure": "cosine"}, across)
    vector_tuning = find_operating_points(
        vector_threshold,
        recall,
        spec=observed_vectors.spec,
        documents=documents,
        distribution=observed_vectors.distribution,
    )
    if json:
        print_json({"text": tuning.to_dict(), "vector": vector_tuning.to_dict()})
        return
    _print_tuning(tuning, show)
    sys.stdout.write("\n")
    _print_tuning(vector_tuning, show)


def _fit_decisions(
    decisions: Path,
    inputs: list[str],
    columns: "Columns",
    reading: o.SelectionOptions,
    signature: SignatureOptions,
) -> "DecisionFit":
    """Chooses the threshold that agrees best with decisions."""
    from nearkin.corpus import FileCorpus, detect_dimensions
    from nearkin.engine.parameters import spec_of
    from nearkin.errors import UsageError
    from nearkin.quality.fit.decision_fit import fit_to_decisions
    from nearkin.quality.fit.definition import COSINE, SET_MEASURES, Definition
    from nearkin.runtime.progress import Silent
    from nearkin.settings.decisions import read_decisions

    read = read_decisions(decisions)
    corpus = FileCorpus.open(inputs, selection=reading.selection)
    columns = detect_dimensions(corpus, columns)
    spec = spec_of(o.parameters_of(signature), columns)
    if spec.measure not in (*SET_MEASURES, COSINE):
        raise UsageError(
            f"--decisions {decisions} fits a threshold of {', '.join(SET_MEASURES)} or {COSINE}; "
            f"leave out {name_setting('measure', spec.measure)}"
        )
    definition = Definition(spec.unit, spec.n, spec.measure, spec.normalise)
    workers = workers_or_cores(None)
    return fit_to_decisions(corpus, columns, read, definition, Silent(), workers)


def _print_tuning(tuning: "Tuning", show: int) -> None:
    """Prints operating points with their curves, the description of the data and warnings."""
    from rich.console import Console

    from nearkin.reports.curves import draw_text
    from nearkin.reports.terminal.planning import data_table, tuning_table

    console = Console()
    if tuning.distribution.profile is not None:
        console.print(data_table(tuning))
        console.print()
    console.print(tuning_table(tuning, show))
    console.print(draw_text(tuning, tuning.points[:3]), highlight=False, markup=False)
    for warning in tuning.warnings:
        console.print(warning, highlight=False, markup=False)


def _parse_limits(texts: list[str]) -> dict[float, float]:
    """Returns the maximum candidate probability at each similarity that --at-most names."""
    from nearkin.errors import UsageError

    limits = {}
    try:
        for text in texts:
            similarity, probability = text.split(":")
            limits[float(similarity)] = float(probability)
    except ValueError as error:
        raise UsageError(f"--at-most {' '.join(texts)!r} is not of the form 0.05:0.006") from error
    return limits
