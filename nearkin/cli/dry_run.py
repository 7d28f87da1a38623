"""The description of a run for --dry-run, and the settings in force for --verbose."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from nearkin.cli.command_line import VERBOSITY
from nearkin.cli.given_options import DEFAULT_SOURCE, GivenOptions
from nearkin.cli.printing import print_json
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.setting_names import flag_of

if TYPE_CHECKING:
    from nearkin.corpus import Columns, FileCorpus
    from nearkin.engine.document_frequencies import FrequencyRequest
    from nearkin.engine.options import RunOptions
    from nearkin.runs.resolved_run import ResolvedRun
    from nearkin.stages.sketch.resources import DocumentFrequencies

OF_SPEC = ("measure", "shingle", "normalise", "stem", "k")
"""The settings of a Spec that are shown."""
OF_RUN = ("threshold", "distance", "recall", "verify")
"""The settings of a run that are shown. Others are, if they are given or chosen."""
BYTES_OF_SHINGLE = 5
"""The size of a shingle in bytes by which a plan estimates the number of shingles."""
PLANNED = {"seconds": "seconds", "memory": "memory", "disk at the peak": "disk"}
"""The lines of a plan that a dry run shows, and their names in its facts."""


@dataclass(frozen=True)
class SettingInForce:
    """A setting of a run, its value, and where the value comes from."""

    name: str
    value: object
    source: str


@dataclass(frozen=True)
class DryRun:
    """The description of a run that was not made.

    Attributes:
        files: Number of files.
        bytes: Size of the files, or None if some are remote.
        rows: Number of rows, or None if it is not known without reading all.
        rows_are_exact: Whether the number of rows is counted, and not estimated from samples.
        columns: The column of ids, of the content, and the others that are read.
        settings: The settings in force.
        expected: Seconds, memory and disk in bytes, as `nearkin plan` estimates them.
        unplanned: Why nothing is expected, if that is so.
    """

    files: int
    bytes: int | None
    rows: int | None
    rows_are_exact: bool
    columns: dict[str, Any]
    settings: tuple[SettingInForce, ...]
    expected: dict[str, float]
    unplanned: str = ""


def count_nothing(request: "FrequencyRequest", share: float) -> "DocumentFrequencies":
    """Returns counts of no documents. A dry run does not count shingles, which reads all inputs."""
    import numpy as np

    from nearkin.stages.sketch.resources import DocumentFrequencies

    return DocumentFrequencies(0, np.empty(0, np.uint64), np.empty(0, np.uint32))


def settings_in_force(
    options: "RunOptions", given: GivenOptions, chosen: Iterable[str] = ()
) -> tuple[SettingInForce, ...]:
    """Returns the settings of a run with their sources.

    Args:
        options: The options of the run.
        given: The options that were given, with their sources.
        chosen: Names of the settings that were chosen for the documents.
    """
    from nearkin.engine.options import RECORDED

    settings = []
    for name, owner in [(name, options.spec) for name in OF_SPEC] + [
        (name, options) for name in RECORDED
    ]:
        value = _value_of(owner, name)
        source = "chosen for these documents" if name in chosen else given.source_of(name)
        is_shown = name in (*OF_SPEC, *OF_RUN) or source != DEFAULT_SOURCE
        if value is not None and is_shown:
            settings.append(SettingInForce(name, value, source))
    return tuple(settings)


def _value_of(owner: Any, name: str) -> object:
    """Returns a setting as options write it."""
    if name == "shingle":
        return f"{owner.unit}:{owner.n}" if owner.has_shingles else None
    value = getattr(owner, name, None)
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


def describe_run(resolved: "ResolvedRun", given: GivenOptions) -> DryRun:
    """Returns what a run would do over inputs that were listed."""
    from nearkin.errors import UsageError

    options = resolved.options
    chosen = () if resolved.chosen is None else tuple(resolved.chosen.settings)
    corpus = resolved.corpus
    files = 0
    size: int | None = None
    rows: int | None = None
    are_exact = False
    if corpus is not None:
        corpus.check(resolved.columns)
        files = len(corpus.files)
        size = size_of(corpus)
        rows, are_exact = count_rows(corpus, resolved.columns)
    described = DryRun(
        files,
        size,
        rows,
        are_exact,
        columns_read(resolved.columns),
        settings_in_force(options, given, chosen),
        {},
    )
    if not rows:
        return replace(described, unplanned="the number of rows is not known")
    try:
        return replace(described, expected=expect(options, rows, size))
    except UsageError as error:
        return replace(described, unplanned=str(error))


def size_of(corpus: "FileCorpus") -> int | None:
    """Returns the size of the files of a corpus in bytes, or None if some are remote."""
    from pathlib import Path

    if any(file.remote for file in corpus.files):
        return None
    return sum(Path(file.path).stat().st_size for file in corpus.files)


def count_rows(corpus: "FileCorpus", columns: "Columns") -> tuple[int | None, bool]:
    """Returns the number of rows, as far as it is known without reading all, and if it is exact."""
    from nearkin.corpus.document_count import SAMPLED_FILES, estimate_documents

    is_parquet = all(file.suffix == ".parquet" for file in corpus.files)
    return estimate_documents(corpus, columns), is_parquet and len(corpus.files) <= SAMPLED_FILES


def columns_read(columns: "Columns") -> dict[str, Any]:
    """Returns the columns of ids and contents, and the others that are read."""
    single = (columns.text, columns.tokens, columns.vector, columns.fingerprint)
    content = [name for name in (*single, *columns.joined) if name is not None]
    content += [rule.name for rule in columns.fields]
    return {
        "id": columns.id,
        "content": ",".join(content),
        "others": [name for name in columns.carried_columns if name not in content],
    }


def expect(options: "RunOptions", rows: int, size: int | None) -> dict[str, float]:
    """Returns the seconds, the memory and the disk of a run, as `nearkin plan` estimates them."""
    from nearkin.quality.plan.capacity import plan
    from nearkin.quality.plan.workload import Workload

    workload = Workload(
        rows, threshold=options.threshold, memory=options.memory, cores=options.workers
    )
    if size is not None:
        text_bytes = max(size / rows, 1)
        workload = replace(
            workload,
            text_bytes=text_bytes,
            shingles=max(round(text_bytes / BYTES_OF_SHINGLE), 1),
            input_bytes=size,
        )
    planned = plan(workload, options.spec)
    return {name: planned.value(line) for line, name in PLANNED.items()}


def print_dry_run(described: DryRun, *, as_json: bool) -> None:
    """Prints what a run would do: as JSON on standard output, or in lines on standard error."""
    if as_json:
        print_json({"dry_run": True, **asdict(described)})
        return
    from nearkin.reports.terminal.planning import format_quantity
    from nearkin.runtime.number_format import format_count

    if described.files:
        size = "" if described.bytes is None else f", {format_quantity(described.bytes, 'B')}"
        about = "" if described.rows_are_exact else "about "
        rows = "" if described.rows is None else f", {about}{format_count(described.rows, 'row')}"
        print_line(f"would read {format_count(described.files, 'file')}{size}{rows}")
    else:
        print_line("would read the signatures of a saved run")
    columns = described.columns
    others = "".join(f", {name}" for name in columns["others"])
    print_line(f"columns: {columns['id'] or 'PATH:ROW'} (id), {columns['content']}{others}")
    print_settings(described.settings)
    if described.expected:
        expected = described.expected
        print_line(
            f"expected: {format_quantity(expected['seconds'], 's')}, "
            f"{format_quantity(expected['memory'], 'B')} of memory, "
            f"{format_quantity(expected['disk'], 'B')} of disk"
        )
    else:
        print_line(f"time, memory and disk cannot be estimated: {described.unplanned}")
    print_line("nothing was written (--dry-run)")


def print_settings(settings: Iterable[SettingInForce]) -> None:
    """Prints settings with their sources, one in each line."""
    print_line("settings:")
    for one in settings:
        print_line(f"  {flag_of(one.name)} {one.value}  ({one.source})")


def ends_as_dry_run(
    resolved: "ResolvedRun", given: GivenOptions, *, dry_run: bool, as_json: bool
) -> bool:
    """Prints what a run would do if that was requested, or the settings with --verbose.

    Returns:
        True if the command ends here.
    """
    if dry_run:
        print_dry_run(describe_run(resolved, given), as_json=as_json)
    elif VERBOSITY.get() > 0:
        chosen = () if resolved.chosen is None else tuple(resolved.chosen.settings)
        print_settings(settings_in_force(resolved.options, given, chosen))
    return dry_run
