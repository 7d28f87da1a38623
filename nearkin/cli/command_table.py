"""The commands of nearkin. The module of a command is imported when the command is looked up.

The help page of nearkin needs a name and a description of every command. To import the modules of
all commands and to describe all their parameters for that would take longer than to print the page.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

START = "Commands"
"""The panel of the commands that the first help page shows."""
CORPORA = "More for corpora"
SETTINGS = "Runs and settings"
SERVICE = "Index and service"
LABORATORY = "Laboratory"
HELP = "Help"


@dataclass(frozen=True)
class CommandEntry:
    """A command or a group of commands, as the help pages of nearkin show it.

    Attributes:
        path: The words by which it is called, for example `lab synth`.
        panel: The panel of the help page that shows it.
        description: The first paragraph of its own help page.
        handles_signals: Whether the command itself handles SIGTERM and SIGHUP. They interrupt all
            others.
        parses_options: Whether the command itself parses its options, which are not known before
            it runs.
        has_commands: Whether it is a group whose module has all its commands.
    """

    path: str
    panel: str
    description: str
    handles_signals: bool = False
    parses_options: bool = False
    has_commands: bool = False

    @property
    def name(self) -> str:
        """The last word of the path.

        It is the name of the module in `nearkin.cli`, and of the function or `typer.Typer` in that
        module, which have underscores in place of hyphens. A group of the table has no module.
        """
        return self.path.rpartition(" ")[2]

    @property
    def group(self) -> str:
        """The group that has the command, or an empty text."""
        return self.path.rpartition(" ")[0]


DESCRIPTIONS = {
    START: {
        "demo": "Deduplicate press releases that come with nearkin.",
        "dedup": "Remove exact duplicates and near-duplicates.",
        "pairs": "Write all pairs of near-duplicates into a file.",
        "check": "Find near-duplicates between two corpora.",
        "split": "Make training and test sets that share no near-duplicates.",
        "review": "Decide about the doubtful pairs of a run.",
        "explain": "Explain why two documents are matched or not.",
        "serve": "Serve an index over HTTP.",
    },
    CORPORA: {
        "passages": "Find passages that occur at two or more places of a corpus.",
        "decontaminate": "Find the items of benchmark suites in a corpus.",
        "work": "Do tasks of a run with --executor jobs, on any machine.",
    },
    SETTINGS: {
        "info": "Show the facts of a finished run or of a signature file.",
        "diff": "Compare two runs over a collection.",
        "card": "Write the section of a dataset card with the figures of a run.",
        "audit": "Measure the precision and the recall of a run.",
        "eval": "Measure a run, or a grid of settings, against labels.",
        "fit": "Choose settings from labels, answers, or the documents alone.",
        "shadow": "Compare the settings of a saved run with other settings.",
        "tune": "List operating points for a threshold and a recall.",
        "plan": "Derive settings, memory, disk and time from a service level.",
        "config": "Show the file with the defaults of options, and check it.",
    },
    SERVICE: {
        "sync": "Let an index have the documents of a folder or a table.",
        "stream": "Upsert the documents of an event stream into an index.",
        "purge": "Remove the documents that are like those of files.",
        "mcp": "Let agents search an index or read a finished run.",
        "index": "Build, search, change and maintain an online index.",
        "block": "Create, change and show a blocklist of documents.",
        "server": "Manage a server.",
        "server init": "Make the key and the tokens that a service needs.",
        "server token": "Create, list and revoke the tokens of a server.",
        "warm-up": "Compile the kernels that are missing on this machine.",
    },
    LABORATORY: {
        "lab": "Make generated corpora, signatures and counts, and compare bands.",
        "lab synth": "Write a generated corpus with known near-duplicates.",
        "lab sketch": "Write signatures of documents into a file.",
        "lab frequencies": "Count in how many documents each shingle occurs.",
        "lab merge": "Merge signature files, or sum cluster sizes over runs.",
        "lab bands": "Compare bands and rows with brute force on a small corpus.",
    },
    HELP: {"help": "Show the help page of a command, or list all commands."},
}
"""The first paragraph of the help page of each command, by the panels that show the commands.

A test compares them with their own help pages."""
COMMANDS = tuple(
    CommandEntry(
        path,
        panel,
        description,
        handles_signals=path in ("stream", "serve"),
        parses_options=path == "serve",
        has_commands=path in ("index", "block", "config", "server token"),
    )
    for panel, descriptions in DESCRIPTIONS.items()
    for path, description in descriptions.items()
)
"""The commands in the order of the help page that lists all of them."""
GROUPS = frozenset(entry.group for entry in COMMANDS if entry.group)
"""The groups of the table, which have no module."""


class CommandTable(Mapping[str, Any]):
    """The commands of a group by name, each of which is loaded when it is looked up.

    Attributes:
        entries: The entries of the table by the names of the commands.
    """

    def __init__(self, load: Callable[[CommandEntry], Any], group: str = "") -> None:
        """Creates a table.

        Args:
            load: Function that returns the command of an entry.
            group: Group whose commands it has. By default, these are the commands without one.
        """
        self._load = load
        self.entries = {entry.name: entry for entry in COMMANDS if entry.group == group}
        self._loaded: dict[str, object] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._load(self.entries[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
