"""The commands of nearkin. The module of a command is imported when the command is looked up.

The help page of nearkin needs a name and a description of every command. To import the modules of
all commands and to describe all their parameters for that would take longer than to print the page.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

START = "Start"
CHECK = "Check and choose settings"
SERVICE = "Index and service"
LABORATORY = "Laboratory"


@dataclass(frozen=True)
class CommandEntry:
    """A command or a group of commands, as the help page of nearkin shows it.

    Attributes:
        name: The name of the command, of its module in `nearkin.cli`, and of the function or
            `typer.Typer` in that module.
        panel: The panel of the help page that shows it.
        description: The first paragraph of its own help page.
        handles_signals: Whether the command itself handles SIGTERM and SIGHUP. They interrupt all
            others.
        parses_options: Whether the command itself parses its options, which are not known before
            it runs.
    """

    name: str
    panel: str
    description: str
    handles_signals: bool = False
    parses_options: bool = False


COMMANDS = (
    CommandEntry(
        "demo",
        START,
        "Deduplicate an archive of press releases that comes with nearkin, and show what was "
        "found.",
    ),
    CommandEntry(
        "dedup",
        START,
        "Remove exact and near-duplicates, each verified against the document that is kept.",
    ),
    CommandEntry(
        "pairs",
        START,
        "Write all verified pairs of near-duplicates into a file: .parquet, .csv, .tsv, .jsonl "
        "or .arrow.",
    ),
    CommandEntry(
        "split",
        START,
        "Split documents into groups, such as training and test sets, without near-duplicates "
        "between them.",
    ),
    CommandEntry(
        "passages",
        START,
        "Find the passages that occur at two or more places of a corpus.",
    ),
    CommandEntry(
        "decontaminate",
        START,
        "Find the items of benchmark suites in a corpus, and list, cut or drop what contains them.",
    ),
    CommandEntry(
        "work",
        START,
        "Do tasks of a run with --executor jobs, on any machine that sees its work folder.",
    ),
    CommandEntry(
        "check",
        CHECK,
        "Find near-duplicates between two corpora, and end with exit code 3 if there are more than "
        "allowed.",
    ),
    CommandEntry(
        "info",
        CHECK,
        "Show the Spec, the fingerprint and the counts of a signature file or of a finished run.",
    ),
    CommandEntry(
        "card",
        CHECK,
        "Write the section of a dataset card with the figures of a run, in Markdown.",
    ),
    CommandEntry("explain", CHECK, "Explain why two documents are matched or not."),
    CommandEntry(
        "review",
        CHECK,
        "Decide about the doubtful pairs of a run: those nearest to its threshold, the nearest "
        "first.",
    ),
    CommandEntry(
        "audit", CHECK, "Measure the precision and the recall of a run on its own corpus."
    ),
    CommandEntry(
        "eval", CHECK, "Measure a run, or a grid of settings, against labelled documents."
    ),
    CommandEntry(
        "fit",
        CHECK,
        "Choose settings from labels: the shingle, the normalization, the measure and the "
        "threshold.",
    ),
    CommandEntry(
        "shadow",
        CHECK,
        "Compare the settings of a saved run with other settings over the same signatures.",
    ),
    CommandEntry(
        "tune",
        CHECK,
        "List operating points for a threshold and a recall: bands, rows, tables and probes, with "
        "their cost.",
    ),
    CommandEntry("plan", CHECK, "Derive settings, memory, disk and time from a service level."),
    CommandEntry("config", CHECK, "Show the file with the defaults of options, and check it."),
    CommandEntry(
        "stream",
        SERVICE,
        "Upsert the documents of an event stream into an index, or send them to a server.",
        handles_signals=True,
    ),
    CommandEntry(
        "serve",
        SERVICE,
        "Serve the index over HTTP, by default with an embedded store. nearkin serve --help lists "
        "the settings.",
        handles_signals=True,
        parses_options=True,
    ),
    CommandEntry("index", SERVICE, "Build, search, change and maintain an online index."),
    CommandEntry(
        "block", SERVICE, "Create, change and show a blocklist of documents that are not wanted."
    ),
    CommandEntry(
        "purge",
        SERVICE,
        "Remove the documents of an index or of a run that are like those of files.",
    ),
    CommandEntry(
        "mcp",
        SERVICE,
        "Let agents search an index or read a finished run, over the Model Context Protocol.",
    ),
    CommandEntry("token", SERVICE, "Create, list and revoke the tokens of a server."),
    CommandEntry(
        "sketch",
        LABORATORY,
        "Write signatures of documents into an Arrow file that contains their Spec.",
    ),
    CommandEntry(
        "frequencies",
        LABORATORY,
        "Count in how many documents each shingle occurs, and write the counts into a file.",
    ),
    CommandEntry(
        "merge", LABORATORY, "Merge signature files, or sum the sizes of clusters over runs."
    ),
    CommandEntry(
        "synth",
        LABORATORY,
        "Write a generated corpus, with the exact similarity of every planted pair.",
    ),
    CommandEntry(
        "lab",
        LABORATORY,
        "Compare bands and rows with brute force on a small corpus.",
    ),
)
"""The commands in the order of the help page. A test compares them with their own help pages."""


class CommandTable(Mapping[str, Any]):
    """The commands of nearkin by name, each of which is loaded when it is looked up."""

    def __init__(self, load: Callable[[CommandEntry], Any]) -> None:
        self._load = load
        self._entries = {entry.name: entry for entry in COMMANDS}
        self._loaded: dict[str, object] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._load(self._entries[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
