"""`nearkin lab synth`."""

import math
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nearkin.cli import options as o
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_range import COUNT, COUNT_OR_NONE, SHARE, UNSIGNED_64, NumberRange
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.setting import ADVANCED, INPUT, MOST_DOCUMENTS, OUTPUT, Need, setting

if TYPE_CHECKING:
    from nearkin.quality.lab.synth import SynthSettings

OF_ANY_CORPUS = ("out", "documents", "seed", "json", "quiet")
"""The options that have an effect with --losses and --contaminated, too."""


@dataclass(frozen=True)
class CorpusOptions:
    """The options that describe a generated corpus."""

    documents: int = setting(
        100_000, "Number of documents.", INPUT, range=NumberRange(1, MOST_DOCUMENTS)
    )
    length: str = setting(
        "lognormal:1500:0.5",
        "Length of a document in bytes: fixed:1500, uniform:500:3000, or lognormal:1500:0.5 "
        "(median, sigma).",
        INPUT,
    )
    vocabulary: Path | None = setting(
        None,
        "Text file whose words are used, with the frequencies that they have in it.",
        INPUT,
        metavar="FILE",
    )
    clustered: float = setting(
        0.25, "Share of documents in clusters of near-duplicates, in [0, 1].", INPUT, range=SHARE
    )
    copies: float = setting(
        1.5, "Mean number of copies of an original.", INPUT, range=NumberRange(1, 1000)
    )
    similarity: str = setting(
        "0.6:1.0", "Range LOW:HIGH of the similarity of a copy to its original, in (0, 1].", INPUT
    )
    edits: str = setting(
        "substitute=4,delete=1,insert=1,swap=0.25,typo=1",
        "Weights of the edit operations that make copies.",
        INPUT,
        metavar="WEIGHTS",
        shown_default="substitute=4, delete=1, insert=1, swap=0.25, typo=1",
    )
    exact: float = setting(0.1, "Share of copies that are exact, in [0, 1].", INPUT, range=SHARE)
    boilerplate: float = setting(
        0.0, "Share of documents that end in a standard paragraph, in [0, 1].", INPUT, range=SHARE
    )
    hot_clusters: int = setting(
        0, "Number of large clusters, with --hot-size documents each.", INPUT, range=COUNT_OR_NONE
    )
    hot_size: int = setting(
        1000,
        "Number of documents of a large cluster.",
        INPUT,
        range=NumberRange(1, MOST_DOCUMENTS),
        need=Need("hot_clusters"),
    )
    hostile: int = setting(
        0,
        "Number of documents with unusual contents that test robustness.",
        INPUT,
        range=COUNT_OR_NONE,
    )
    files: int = setting(1, "Number of files of documents.", OUTPUT, range=NumberRange(1, 100000))
    format: str = setting(
        "parquet", "Format of the files: parquet or jsonl.", OUTPUT, values=("parquet", "jsonl")
    )
    seed: int = setting(1, "Random seed.", ADVANCED, range=UNSIGNED_64)

    def to_settings(self) -> "SynthSettings":
        """Returns the settings of the corpus."""
        from nearkin.quality.lab.synth import SynthSettings

        values = {**vars(self), "similarity": _parse_range(self.similarity)}
        values["operations"] = _parse_weights(values.pop("edits"))
        del values["vocabulary"]
        return SynthSettings(**values)


@with_option_groups
def synth(
    *,
    given: GivenOptions,
    out: Path,
    corpus: CorpusOptions,
    shingle: str = "words:3",
    workers: int | None = None,
    losses: str | None = setting(
        None,
        "Write a corpus in which removals may lose information, with the documents that say all "
        "of each one: forms (that differ in numbers), additions (to a base text) or changes (of a "
        "known kind, in texts of 60 to 2,000 words). Only --documents and --seed apply.",
        INPUT,
        metavar="KIND",
    ),
    contaminated: int | None = setting(
        None,
        "Write a suite of this number of items, and a corpus in which some are planted, with the "
        "truth. Only --documents and --seed apply.",
        INPUT,
        metavar="ITEMS",
        range=COUNT,
    ),
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Write a generated corpus with known near-duplicates.

    The exact similarity of every planted pair is written, too.

    Examples:
        nearkin lab synth --documents 1000000 --out synth/

        nearkin lab synth --documents 50000 --similarity 0.75:0.95 --hot-clusters 2 --boilerplate 0.1 --hostile 50 --out hard/

        nearkin lab synth --losses forms --documents 1000 --out forms/

        nearkin lab synth --contaminated 1000 --documents 20000 --out contaminated/
    """  # noqa: E501
    with file_imports():
        from nearkin.quality.lab.synth import synth as write_corpus
        from nearkin.settings.spec import Spec

    for name, value in (("losses", losses), ("contaminated", contaminated)):
        if value is not None:
            of_others = tuple(sorted(given.names - {*OF_ANY_CORPUS, name}))
            given.require_unused(of_others, f"with {name_setting(name, value)}")
    settings = corpus.to_settings()
    if losses is not None:
        _write_losses(out, losses, settings, as_json=json)
        return
    if contaminated is not None:
        _write_contaminated(out, contaminated, settings, as_json=json)
        return
    with closing(o.open_progress(quiet=quiet)) as progress:
        progress.stage("synth", settings.documents)
        facts = write_corpus(
            out,
            settings,
            vocabulary=_read_vocabulary(corpus.vocabulary),
            spec=Spec.for_shingle(shingle),
            workers=workers_or_cores(workers),
            advance=progress.advance,
        )
    if json:
        print_json(facts)
    else:
        print_line(
            f"{settings.documents:,} documents ({facts['text_bytes']:,} bytes) and "
            f"{facts['planted_pairs']:,} pairs in {out}"
        )


def _write_losses(out: Path, kind: str, settings: "SynthSettings", *, as_json: bool) -> None:
    """Writes a corpus in which removals may lose information, and prints what was written."""
    from nearkin.quality.lab.loss_corpus import parse_loss_kind, write_loss_corpus

    facts = write_loss_corpus(out, parse_loss_kind(kind), settings.documents, settings.seed)
    if as_json:
        print_json(facts)
    else:
        print_line(f"{facts['documents']:,} documents ({facts['text_bytes']:,} bytes) in {out}")


def _write_contaminated(out: Path, items: int, settings: "SynthSettings", *, as_json: bool) -> None:
    """Writes a corpus with planted items of a suite, and prints what was written."""
    from nearkin.quality.lab.contaminated_corpus import write_contaminated_corpus

    facts = write_contaminated_corpus(out, settings.documents, items, settings.seed)
    if as_json:
        print_json(facts)
    else:
        print_line(
            f"{facts['documents']:,} documents ({facts['text_bytes']:,} bytes), of which "
            f"{facts['planted']:,} have one of {facts['items']:,} items, in {out}"
        )


def _parse_range(text: str) -> tuple[float, float]:
    from nearkin.errors import UsageError

    low, _, high = text.partition(":")
    try:
        similarities = (float(low), float(high or low))
    except ValueError as error:
        raise UsageError(f"similarity {text!r} is not of the form 0.6:1.0") from error
    if not all(map(math.isfinite, similarities)):
        raise UsageError(f"similarity {text!r} is not of the form 0.6:1.0")
    return similarities


def _parse_weights(text: str) -> dict[str, float]:
    from nearkin.errors import UsageError

    weights = {}
    try:
        for part in text.split(","):
            if part.strip():
                name, weight = part.split("=")
                weights[name.strip()] = float(weight)
    except ValueError as error:
        raise UsageError(f"edits {text!r} is not of the form substitute=4,typo=1") from error
    return weights


def _read_vocabulary(path: Path | None) -> str | None:
    from nearkin.errors import UsageError

    if path is None:
        return None
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(
            f"cannot read the vocabulary {path}: {reason}; give a text file"
        ) from error
