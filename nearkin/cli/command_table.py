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


DESCRIPTIONS = {
    START: {
        "demo": "Deduplicate an archive of press releases that comes with nearkin, and show what "
        "was found.",
        "dedup": "Remove exact and near-duplicates, each verified against the document that is "
        "kept.",
        "pairs": "Write all verified pairs of near-duplicates into a file: .parquet, .csv, .tsv, "
        ".jsonl or .arrow.",
        "split": "Split documents into groups, such as training and test sets, without "
        "near-duplicates between them.",
        "passages": "Find the passages that occur at two or more places of a corpus.",
        "decontaminate": "Find the items of benchmark suites in a corpus, and list, cut or drop "
        "what contains them.",
        "work": "Do tasks of a run with --executor jobs, on any machine that sees its work folder.",
    },
    CHECK: {
        "check": "Find near-duplicates between two corpora, and end with exit code 3 if there are "
        "more than allowed.",
        "info": "Show the Spec, the fingerprint and the counts of a signature file or of a "
        "finished run.",
        "card": "Write the section of a dataset card with the figures of a run, in Markdown.",
        "explain": "Explain why two documents are matched or not.",
        "review": "Decide about the doubtful pairs of a run: those nearest to its threshold, the "
        "nearest first.",
        "audit": "Measure the precision and the recall of a run on its own corpus.",
        "eval": "Measure a run, or a grid of settings, against labelled documents.",
        "fit": "Choose settings from labels, answers, or the documents alone.",
        "shadow": "Compare the settings of a saved run with other settings over the same "
        "signatures.",
        "tune": "List operating points for a threshold and a recall: bands, rows, tables and "
        "probes, with their cost.",
        "plan": "Derive settings, memory, disk and time from a service level.",
        "config": "Show the file with the defaults of options, and check it.",
    },
    SERVICE: {
        "stream": "Upsert the documents of an event stream into an index, or send them to a "
        "server.",
        "serve": "Serve the index over HTTP, by default with an embedded store. nearkin serve "
        "--help lists the settings.",
        "index": "Build, search, change and maintain an online index.",
        "block": "Create, change and show a blocklist of documents that are not wanted.",
        "purge": "Remove the documents of an index or of a run that are like those of files.",
        "mcp": "Let agents search an index or read a finished run, over the Model Context "
        "Protocol.",
        "token": "Create, list and revoke the tokens of a server.",
    },
    LABORATORY: {
        "sketch": "Write signatures of documents into an Arrow file that contains their Spec.",
        "frequencies": "Count in how many documents each shingle occurs, and write the counts into "
        "a file.",
        "merge": "Merge signature files, or sum the sizes of clusters over runs.",
        "synth": "Write a generated corpus, with the exact similarity of every planted pair.",
        "lab": "Compare bands and rows with brute force on a small corpus.",
    },
}
"""The first paragraph of the help page of each command, by the panels that show the commands.

A test compares them with their own help pages."""
COMMANDS = tuple(
    CommandEntry(
        name,
        panel,
        description,
        handles_signals=name in ("stream", "serve"),
        parses_options=name == "serve",
    )
    for panel, descriptions in DESCRIPTIONS.items()
    for name, description in descriptions.items()
)
"""The commands in the order of the help page."""


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
