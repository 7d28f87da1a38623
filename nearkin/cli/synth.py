"""`nearkin synth`."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nearkin.cli import options as o
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.setting import (
    ADVANCED,
    COUNT,
    COUNT_OR_NONE,
    INPUT,
    MOST_DOCUMENTS,
    OUTPUT,
    SHARE,
    UNSIGNED_64,
    Need,
    NumberRange,
    Setting,
)

if TYPE_CHECKING:
    from nearkin.quality.lab.synth import SynthSettings

OF_ANY_CORPUS = ("out", "documents", "seed", "json", "quiet")
"""The options that have an effect with --losses and --contaminated, too."""


@dataclass(frozen=True)
class CorpusOptions:
    """The options that describe a generated corpus."""

    documents: Annotated[
        int, Setting("Number of documents.", INPUT, range=NumberRange(1, MOST_DOCUMENTS))
    ] = 100_000
    length: Annotated[
        str,
        Setting(
            "Length of a document in bytes: fixed:1500, uniform:500:3000, or "
            "lognormal:1500:0.5 (median, sigma).",
            INPUT,
        ),
    ] = "lognormal:1500:0.5"
    vocabulary: Annotated[
        Path | None,
        Setting(
            "Text file whose words are used, with the frequencies that they have in it.",
            INPUT,
            metavar="FILE",
        ),
    ] = None
    clustered: Annotated[
        float,
        Setting(
            "Share of documents in clusters of near-duplicates, in [0, 1].", INPUT, range=SHARE
        ),
    ] = 0.25
    copies: Annotated[
        float,
        Setting("Mean number of copies of an original.", INPUT, range=NumberRange(1, 1000)),
    ] = 1.5
    similarity: Annotated[
        str,
        Setting("Range LOW:HIGH of the similarity of a copy to its original, in (0, 1].", INPUT),
    ] = "0.6:1.0"
    edits: Annotated[
        str,
        Setting(
            "Weights of the edit operations that make copies.",
            INPUT,
            metavar="WEIGHTS",
            shown_default="substitute=4, delete=1, insert=1, swap=0.25, typo=1",
        ),
    ] = "substitute=4,delete=1,insert=1,swap=0.25,typo=1"
    exact: Annotated[
        float,
        Setting("Share of copies that are exact, in [0, 1].", INPUT, range=SHARE),
    ] = 0.1
    boilerplate: Annotated[
        float,
        Setting(
            "Share of documents that end in a standard paragraph, in [0, 1].", INPUT, range=SHARE
        ),
    ] = 0.0
    hot_clusters: Annotated[
        int,
        Setting(
            "Number of large clusters, with --hot-size documents each.", INPUT, range=COUNT_OR_NONE
        ),
    ] = 0
    hot_size: Annotated[
        int,
        Setting(
            "Number of documents of a large cluster.",
            INPUT,
            range=NumberRange(1, MOST_DOCUMENTS),
            need=Need("hot_clusters"),
        ),
    ] = 1000
    hostile: Annotated[
        int,
        Setting(
            "Number of documents with unusual contents that test robustness.",
            INPUT,
            range=COUNT_OR_NONE,
        ),
    ] = 0
    files: Annotated[
        int, Setting("Number of files of documents.", OUTPUT, range=NumberRange(1, 100000))
    ] = 1
    format: Annotated[
        str,
        Setting("Format of the files: parquet or jsonl.", OUTPUT, values=("parquet", "jsonl")),
    ] = "parquet"
    seed: Annotated[int, Setting("Random seed.", ADVANCED, range=UNSIGNED_64)] = 1

    def to_settings(self) -> "SynthSettings":
        """Returns the settings of the corpus."""
        from nearkin.quality.lab.synth import SynthSettings

        return SynthSettings(
            documents=self.documents,
            length=self.length,
            clustered=self.clustered,
            copies=self.copies,
            similarity=_parse_range(self.similarity),
            operations=_parse_weights(self.edits),
            exact=self.exact,
            boilerplate=self.boilerplate,
            hot_clusters=self.hot_clusters,
            hot_size=self.hot_size,
            hostile=self.hostile,
            files=self.files,
            format=self.format,
            seed=self.seed,
        )


@with_option_groups
def synth(
    *,
    given: GivenOptions,
    out: Path,
    corpus: CorpusOptions,
    shingle: str = "words:3",
    workers: int | None = None,
    losses: Annotated[
        str | None,
        Setting(
            "Write a corpus in which removals may lose information, with the documents that "
            "say all of each one: forms (that differ in numbers), additions (to a base text) or "
            "changes (of a known kind, in texts of 60 to 2,000 words). Only --documents and --seed "
            "apply.",
            INPUT,
            metavar="KIND",
        ),
    ] = None,
    contaminated: Annotated[
        int | None,
        Setting(
            "Write a suite of this number of items, and a corpus in which some are planted, "
            "with the truth. Only --documents and --seed apply.",
            INPUT,
            metavar="ITEMS",
            range=COUNT,
        ),
    ] = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Write a generated corpus, with the exact similarity of every planted pair.

    Examples:
        nearkin synth --documents 1000000 --out synth/

        nearkin synth --documents 50000 --similarity 0.75:0.95 --hot-clusters 2 --boilerplate 0.1 --hostile 50 --out hard/

        nearkin synth --losses forms --documents 1000 --out forms/

        nearkin synth --contaminated 1000 --documents 20000 --out contaminated/
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
    progress = o.open_progress(quiet=quiet)
    progress.stage("synth", settings.documents)
    try:
        facts = write_corpus(
            out,
            settings,
            vocabulary=_read_vocabulary(corpus.vocabulary),
            spec=Spec.for_shingle(shingle),
            workers=workers_or_cores(workers),
            advance=progress.advance,
        )
    finally:
        progress.close()
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
