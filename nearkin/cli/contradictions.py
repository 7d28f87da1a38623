"""Options that contradict each other. They are refused before anything is read or written.

The tables list the pairs of options of all commands of which one would ignore the other. Pairs
whose effect depends on the inputs, for example on a saved run, are checked by the commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nearkin.cli.given_options import GivenOptions, flag_of


@dataclass(frozen=True)
class Contradiction:
    """Two options of which one command takes at most one.

    Attributes:
        first: The name of a parameter.
        second: The name of another parameter.
        reason: The part of the message that says why.
        command: The name of the only command to which it applies, or an empty text.
    """

    first: str
    second: str
    reason: str
    command: str = ""

    @property
    def names(self) -> tuple[str, str]:
        """The names of both parameters."""
        return self.first, self.second


@dataclass(frozen=True)
class Dependency:
    """An option that has an effect only with certain values of another one.

    Attributes:
        name: The name of a parameter.
        other: The name of the parameter on which it depends.
        values: The values of the other parameter with which it has an effect. If there are none,
            it has an effect with every value other than None, False and 0.
        command: The name of the only command to which it applies, or an empty text.
    """

    name: str
    other: str
    values: tuple[str, ...] = ()
    command: str = ""

    @property
    def names(self) -> tuple[str, str]:
        """The names of both parameters."""
        return self.name, self.other

    def is_satisfied(self, value: object) -> bool:
        """Returns whether the option has an effect with a value of the other one."""
        return value in self.values if self.values else bool(value)

    def describe_conflict(self, value: object) -> str:
        """Returns the error message for a value of the other option."""
        other_name = "inputs" if self.other == "inputs" else flag_of(self.other)
        conflict = f"with {other_name} {value}" if value else f"without {other_name}"
        advice = other_name
        if self.values:
            advice = f"{other_name} {' or '.join(self.values)}"
        return f"{flag_of(self.name)} has no effect {conflict}; leave it out, or give {advice}"


CONTRADICTIONS = (
    Contradiction("distance", "threshold", "the distance replaces the threshold"),
    *(
        Contradiction("distance", name, "the search by distance finds every pair")
        for name in ("recall", "bands", "rows", "tables", "probes")
    ),
    Contradiction("resume", "overwrite", "a resumed run keeps what an interrupted one left"),
    Contradiction("cut_list", "max_df", "the list replaces the share"),
    Contradiction("key_file", "base_hash", "keyed hashing is siphash"),
    Contradiction("budget", "k", "k follows from the budget"),
    Contradiction("run", "index", "two documents are looked up in one place"),
    *(
        Contradiction("vector", name, "vectors have no shingles")
        for name in (
            *("shingle", "normalise", "stem", "weights", "max_df", "cut_list", "base_hash"),
            "spec_version",
        )
    ),
    *(
        Contradiction("fingerprint", name, "documents have one kind of content")
        for name in ("text", "tokens", "vector")
    ),
    *(
        Contradiction("fingerprint", name, "fingerprints are given, and not made")
        for name in (
            *("shingle", "normalise", "stem", "weights", "frequencies", "max_df", "cut_list"),
            *("k", "slot_bits", "scheme", "seed", "base_hash", "spec_version", "key_file"),
        )
    ),
    *(
        Contradiction("fields", name, "each field names its column, its measure and its limit")
        for name in (
            *("text", "tokens", "vector", "fingerprint", "bits", "measure", "threshold"),
            *("distance", "weights", "frequencies", "max_df", "cut_list", "max_lost"),
        )
    ),
    Contradiction("store", "server", "documents have one destination", "stream"),
    *(
        Contradiction("server", name, "the server has its own", "stream")
        for name in ("key_file", "spec_resources")
    ),
    Contradiction("decisions", "threshold", "the threshold follows from the decisions", "tune"),
    Contradiction("decisions", "across", "decisions are about any two documents", "tune"),
    Contradiction("recall", "bands", "given bands and rows are evaluated as they are", "tune"),
    Contradiction("documents", "inputs", "the number of documents is that of the inputs", "tune"),
    Contradiction("at_most", "bands", "the limits choose bands and rows", "tune"),
)
"""The pairs of options that exclude each other in every command that has both."""
DEPENDENCIES = (
    *(
        Dependency(name, "output", ("kept",), command="dedup")
        for name in ("annotate", "codec", "sizes", "document_weights")
    ),
    Dependency("floor", "cluster", ("components",)),
    Dependency("missing_block", "block_by"),
    *(
        Dependency(name, "relation", ("similarity",))
        for name in (
            "bands",
            "rows",
            "tables",
            "probes",
            "fanout",
            "verify",
            "k",
            "slot_bits",
            "scheme",
            "seed",
            "expand_exact",
        )
    ),
    *(
        Dependency(name, "inputs", command=command)
        for command in ("tune", "plan")
        for name in (
            "text",
            "tokens",
            "vector",
            "sample",
            "delimiter",
            "encoding",
            "hidden",
            "follow_links",
            "include",
            "exclude",
        )
    ),
    Dependency("decisions", "inputs", command="tune"),
    Dependency("id_column", "decisions", command="tune"),
    *(
        Dependency("scope", "decisions", command=command)
        for command in ("index check", "index compact", "index rebuild")
    ),
    *(Dependency(name, "index", command="explain") for name in ("scope", "spec_resources")),
    *(Dependency(name, "engine", ("index",)) for name in ("clusters", "latency")),
    *(Dependency(name, "engine", ("index",), command="plan") for name in ("store", "store_text")),
    Dependency("input_bytes", "engine", ("local",)),
    *(Dependency(name, "engine", ("local", "spark")) for name in ("time", "cores")),
    *(Dependency(name, "engine", ("spark",)) for name in ("master", "conf", "merge_parts")),
    Dependency("dimensions", "measure", ("cosine",)),
    Dependency("hot_size", "hot_clusters"),
)
"""The options that have an effect only with certain values of another one."""


def require_consistent(
    given: GivenOptions, values: Mapping[str, object], command: str = ""
) -> None:
    """Requires that options do not contradict each other."""
    from nearkin.errors import UsageError

    for pair in CONTRADICTIONS:
        if pair.command in ("", command) and pair.first in given and pair.second in given:
            names = f"{_name_option(pair.first)} and {_name_option(pair.second)}"
            raise UsageError(f"{names} exclude each other: {pair.reason}; give one of them")
    for dependency in DEPENDENCIES:
        if dependency.command not in ("", command) or dependency.name not in given:
            continue
        if dependency.other not in values:
            continue
        value = values[dependency.other]
        if not dependency.is_satisfied(value):
            raise UsageError(dependency.describe_conflict(value))


def names_to_yield(
    configured: GivenOptions, given: GivenOptions, values: Mapping[str, object], command: str
) -> frozenset[str]:
    """Returns the defaults of a file that contradict given options, or have no effect with them.

    The command line wins over a file, so these defaults are left out.
    """
    from nearkin.engine.parameters import THRESHOLDS

    yielding: set[str] = set()
    for pair in CONTRADICTIONS:
        if pair.command in ("", command):
            for name, other in (pair.names, pair.names[::-1]):
                if name in configured and other in given:
                    yielding.add(name)
    for dependency in DEPENDENCIES:
        if (
            dependency.command in ("", command)
            and dependency.name in configured
            and dependency.other in values
            and not dependency.is_satisfied(values[dependency.other])
        ):
            yielding.add(dependency.name)
    if "accept" in given:
        yielding.update(THRESHOLDS)
    if not given.names.isdisjoint(THRESHOLDS):
        yielding.add("accept")
    return frozenset(yielding & configured.names - given.names)


def _name_option(name: str) -> str:
    """Returns an option, or the word for the argument of inputs."""
    return name if name == "inputs" else flag_of(name)
