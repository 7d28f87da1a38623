"""Options that several commands share, and how they become a Job."""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

if TYPE_CHECKING:
    from nearkin.runtime.progress import Progress

READABLE_BY = "NEARKIN_READABLE_BY"
"""The environment variable that says who may read what commands write."""

Inputs = Annotated[
    list[str], typer.Argument(help="Files, globs, folders, URLs (s3://, gs://, file://), or a run saved with signatures.")
]
Text = Annotated[str | None, typer.Option("--text", help="Text column.  [default: text]", metavar="COL")]
Tokens = Annotated[str | None, typer.Option("--tokens", help="Column of token lists, instead of text.", metavar="COL")]
Id = Annotated[str | None, typer.Option("--id", help="Id column; without one an id is PATH:ROW.", metavar="COL")]
Vector = Annotated[str | None, typer.Option("--vector", help="Column of vectors, instead of text.", metavar="COL")]
Measure = Annotated[
    str | None,
    typer.Option("--measure", help="jaccard, weighted-jaccard, simhash, cosine (of vectors).  [default: jaccard]"),
]
Distance = Annotated[
    int | None, typer.Option("--distance", help="simhash, cosine: Hamming distance, instead of a threshold.", metavar="D")
]
Weights = Annotated[str | None, typer.Option("--weights", help="simhash: tf, or tfidf (counted first).  [default: tf]")]
Frequencies = Annotated[
    Path | None, typer.Option("--frequencies", help="tfidf: document frequencies of another run.", metavar="FILE")
]
MaxDf = Annotated[
    float | None,
    typer.Option("--max-df", help="Leave out shingles that more than this share of the documents have.", metavar="SHARE"),
]
CutList = Annotated[
    Path | None, typer.Option("--cut-list", help="Leave out the shingles of cut.arrow of another run.", metavar="FILE")
]
SpecTables = Annotated[
    Path | None,
    typer.Option("--tables", help="A run's folder with cut.arrow or frequencies.arrow, if the index' Spec names them."),
]
KeyFile = Annotated[
    str | None,
    typer.Option("--key-file", help="Hash with a secret key from FILE, or from env:NAME (32 hex digits).", metavar="FILE"),
]
BaseHash = Annotated[str | None, typer.Option("--base-hash", help="xxh3, murmur3 or fnv1a.  [default: xxh3]")]
SlotBits = Annotated[int | None, typer.Option("--slot-bits", help="Bits kept of a MinHash slot: 32, 16, 8, 4, 2 or 1.")]
Tables = Annotated[int, typer.Option("--tables", help="Independent tables of disjoint MinHash slots.", metavar="L")]
Probes = Annotated[int, typer.Option("--probes", help="MinHash: slots of a band probed by their runner-up.", metavar="P")]
Threshold = Annotated[float, typer.Option("--threshold", help="Similarity from which two documents are near-duplicates.")]
Recall = Annotated[float, typer.Option("--recall", help="Asked share of the pairs at the threshold to be found.")]
Shingle = Annotated[str, typer.Option("--shingle", help="words:N or chars:N.")]
Normalise = Annotated[
    str, typer.Option("--normalise", help="Comma-separated: nfkc, lower, digits, punctuation, marks, markup.", metavar="STEPS")
]
Stem = Annotated[str | None, typer.Option("--stem", help="Snowball language whose stems replace words.", metavar="LANGUAGE")]
Scheme = Annotated[str | None, typer.Option("--scheme", help="MinHash: binned or classic.  [default: binned]")]
K = Annotated[
    int | None,
    typer.Option("--k", help="Slots of a signature (128), or its bits (simhash 64, cosine 512).", show_default=False),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the signature's hash functions.")]
Bands = Annotated[int | None, typer.Option("--bands", help="Bands; with --rows. Both are solved for unless given.")]
Rows = Annotated[int | None, typer.Option("--rows", help="Rows of a band.")]
Verify = Annotated[str, typer.Option("--verify", help="exact, estimate or none.")]
BlockBy = Annotated[
    str | None, typer.Option("--block-by", help="Compare only documents with the same value here.", metavar="COL")
]
MaxBucket = Annotated[int, typer.Option("--max-bucket", help="A bucket larger than this is clustered inside itself.")]
Fanout = Annotated[int, typer.Option("--fanout", help="Leaders a member of such a bucket is compared with.")]
Memory = Annotated[str, typer.Option("--memory", help="Anonymous memory of the whole run.", metavar="SIZE")]
ReadMemory = Annotated[
    str,
    typer.Option(
        "--memory",
        help="Memory for reading. The largest document may have 1/32 of it, at most 1 GiB; larger ones are rejected.",
        metavar="SIZE",
    ),
]
Workers = Annotated[int | None, typer.Option("--workers", help="Threads.  [default: the machine's cores]")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what a killed run left.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")]
OnError = Annotated[str, typer.Option("--on-error", help="quarantine or fail, for rows and files that cannot be read.")]
Hidden = Annotated[
    bool, typer.Option("--hidden", help="Read files and folders whose names start with . or _ too, where a folder is given.")
]
FollowLinks = Annotated[
    bool, typer.Option("--follow-links", help="Follow symbolic links to folders below an input folder; each is read once.")
]
ReadableBy = Annotated[
    str,
    typer.Option(
        "--readable-by",
        help="Who may read the output, which contains texts: owner, group or everyone.",
        envvar=READABLE_BY,
        callback=lambda value: restrict_new_files(value),
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON, the only thing on standard output.")]
Out = Annotated[Path, typer.Option("--out", help="Where the result goes.")]

PlanFile = Annotated[
    Path | None, typer.Option("--plan", help="Take the settings that nearkin plan --out wrote.", metavar="FILE")
]

NOTHING_READ = 3
"""The exit code of a run that is complete, and whose inputs have rows but no document."""
NORMALISE = "nfkc,lower"
SECONDS = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>s|m|h|d)?")
SECONDS_OF = {None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
MEMORY = "4GB"


@dataclass(frozen=True)
class SpecOptions:
    """The options that make a Spec, by the names that every command gives them; None where it has no such option."""

    shingle: str
    normalise: str
    stem: str | None
    scheme: str | None
    k: int | None
    seed: int | None
    measure: str | None
    slot_bits: int | None
    base_hash: str | None
    weights: str | None
    frequencies: Path | None
    max_df: float | None
    cut_list: Path | None
    key_file: str | None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """From a command's parameters."""
        values: dict[str, Any] = {name: options.get(name) for name in cls.__dataclass_fields__}
        return cls(**values)

    def asked(self) -> Any:
        """What the Spec is made from."""
        from nearkin.errors import UsageError
        from nearkin.keys import HashKey
        from nearkin.runs.spec_request import SpecRequest
        from nearkin.spec import parse_shingle

        unit, n = parse_shingle(self.shingle)
        steps = tuple(step.strip() for step in self.normalise.split(",") if step.strip())
        fields = {"unit": unit, "n": n, "normalise": steps, "stem": self.stem, "scheme": self.scheme, "k": self.k}
        fields |= {"seed": self.seed, "slot_bits": self.slot_bits, "base_hash": self.base_hash}
        if self.key_file is not None and self.base_hash is not None:
            raise UsageError(f"--base-hash {self.base_hash} and --key-file exclude each other: keyed hashing is siphash")
        secret = None if self.key_file is None else HashKey.read(self.key_file)
        given = {name: value for name, value in fields.items() if value is not None}
        return SpecRequest(self.measure, given, self.weights, self.frequencies, self.max_df, self.cut_list, secret)


def columns(text: str | None, tokens: str | None, vector: str | None, id_column: str | None, extra: tuple[str, ...]) -> Any:
    """What of the inputs is read."""
    from nearkin.corpus import Columns
    from nearkin.errors import UsageError

    named = {"--text": text, "--tokens": tokens, "--vector": vector}
    given = [f"{option} {value}" for option, value in named.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other")
    return Columns(text=text or (None if given else "text"), tokens=tokens, vector=vector, id=id_column, carried_columns=extra)


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers, separated by commas."""
    from nearkin.errors import UsageError

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"{option} {text!r} is not of the form 1,2,4")
    return tuple(map(int, parts))


def seconds(text: str | None, option: str) -> float | None:
    """From `60s`, `5m`, `1h`."""
    from nearkin.errors import UsageError

    if text is None:
        return None
    if (found := SECONDS.fullmatch(text.strip())) is None:
        raise UsageError(f"{option} {text!r} is not a time like 60s or 5m")
    return float(found["number"]) * SECONDS_OF[found["unit"]]


SIDE_FILES = ("plan", "key_file", "frequencies", "cut_list")
"""Options that name files which a command reads beside its inputs."""


def require_apart_from_files(context: typer.Context, out: Path) -> None:
    """Requires that an output does not replace a file that an option names.

    Raises:
        UsageError: If it would.
    """
    from nearkin.runtime.outputs import require_apart

    named = [context.params.get(name) for name in SIDE_FILES]
    require_apart(out, [str(path) for path in named if path is not None and not str(path).startswith("env:")])


def require_unused(context: typer.Context, names: tuple[str, ...], why: str) -> None:
    """Requires that options which would be ignored were not given.

    Raises:
        UsageError: If one was given. The message names it.
    """
    from nearkin.errors import UsageError

    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"--{name.removesuffix('_column').replace('_', '-')} has no effect {why}; leave it out")


def require_as_saved(context: typer.Context, inputs: list[str]) -> None:
    """Requires that options which were given do not contradict the saved run that is the input, if it is one.

    Raises:
        UsageError: If one does. The message names the option and what the saved run was made with.
    """
    from nearkin.errors import UsageError
    from nearkin.runs.saved import SavedRun

    if (saved := SavedRun.find(tuple(inputs))) is None:
        return
    made = as_options(saved.spec, saved.record["columns"])
    for name, value in made.items():
        source = context.get_parameter_source(name)
        given = context.params.get(name)
        if source is None or source.name != "COMMANDLINE" or as_text(name, given) == as_text(name, value):
            continue
        option = f"--{name.removesuffix('_column').replace('_', '-')}"
        kept = f"{option} {value}" if value is not None else f"no {option}"
        raise UsageError(
            f"{option} {given} contradicts the saved run {saved.folder}, which was made with {kept}; leave it out, or "
            "run on the inputs of the saved run"
        )


def as_options(spec: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the options that a saved run's Spec and columns stand for, by parameter name."""
    from nearkin.spec import KEYED

    return {
        "text": columns["text"],
        "tokens": columns["tokens"],
        "vector": columns["vector"],
        "id_column": columns["id"],
        "measure": spec.measure,
        "shingle": spec.shingle,
        "normalise": ",".join(spec.normalise),
        "stem": spec.stem,
        "scheme": spec.scheme,
        "k": spec.k,
        "slot_bits": spec.slot_bits,
        "seed": spec.seed,
        "base_hash": None if spec.base_hash == KEYED else spec.base_hash,
        "weights": spec.weights,
        "frequencies": None,
    }


def as_text(name: str, value: Any) -> str:
    """Returns the value of an option such that equal requests are equal: the order of normalisation steps does not matter."""
    if name == "normalise":
        return ",".join(sorted(step.strip() for step in str(value).split(",") if step.strip()))
    return str(value)


def planned(context: typer.Context, path: Path) -> dict[str, Any]:
    """The options of a plan's file; one that was given too must say the same.

    Raises:
        UsageError: It is no plan, or contradicts an option.
    """
    import json

    from nearkin.engine.options import parse_size
    from nearkin.errors import UsageError

    try:
        settings: dict[str, Any] = json.loads(path.read_bytes())["settings"]
    except FileNotFoundError as error:
        raise UsageError(f"no such file: {path}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no plan; write one with nearkin plan --out {path.name}") from error
    found = {name: value for name, value in settings.items() if value is not None and name in context.params}
    for name, value in found.items():
        given = context.params[name]
        same = parse_size(str(given)) == parse_size(value) if name == "memory" else str(given) == str(value)
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and not same:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} {given} contradicts {value} of {path}; leave it out, or make another plan")
    return found


def workers_or_cores(workers: int | None) -> int:
    """Asked threads, else one for each core this process may use."""
    return workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))


def progress() -> "Progress":
    """A display on standard error, silent when that is not a terminal."""
    from nearkin.runtime.progress import Silent

    if not sys.stderr.isatty():
        return Silent()
    from nearkin.report.progress import TerminalProgress

    return TerminalProgress()


def restrict_new_files(readable_by: str) -> str:
    """Sets who may read the files that this process writes from now on; returns the name.

    Raises:
        UsageError: If the name is unknown.
    """
    from nearkin.runtime.files import Readers

    os.umask(Readers.parse(readable_by).umask)
    return readable_by


def require_documents(documents: int, rejected: int, where: str) -> None:
    """Ends a command with NOTHING_READ if every row of its inputs was rejected.

    Args:
        documents: Rows that are documents.
        rejected: Rows that are not.
        where: Where the reasons are.
    """
    if rejected and not documents:
        sys.stderr.write(f"nearkin: no document could be read: {rejected:,} of {rejected:,} rows were rejected; {where}\n")
        raise typer.Exit(NOTHING_READ)


def show_warnings(warnings: Iterable[str]) -> None:
    """Writes warnings on standard error, one a line."""
    for warning in warnings:
        sys.stderr.write(f"nearkin: warning: {warning}\n")


def print_json(summary: dict[str, Any]) -> None:
    """The summary as the only thing on standard output."""
    import json

    text = json.dumps(summary, sort_keys=True, ensure_ascii=False) + "\n"
    # a path that is not UTF-8 becomes a JSON escape
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode())
