"""Labelled sets that others published, read from clones of their repositories.

A clone is a git repository, bare or not, below one folder. Its name is that of the repository on
GitHub, with + in place of /:

    git clone --bare https://github.com/AI-team-UoA/pyJedAI FOLDER/AI-team-UoA+pyJedAI
"""

import csv
import io
import random
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.quality.labelled_set import LabelledRow, LabelledSet, build_set

SEED = 1
MOST_ROWS = 3000
"""The number of rows from which on whole clusters are drawn."""
PYJEDAI = "AI-team-UoA+pyJedAI"
AUTOFJ = "chu-data-lab+AutomaticFuzzyJoin"
SPLINK = "moj-analytical-services+splink_datasets"
DEDUPE = "dedupeio+dedupe-examples"
DITTO = "megagonlabs+ditto"
LOGHUB = "logpai+loghub"
LOGS = (
    *("Android", "Apache", "BGL", "HDFS", "HPC", "Hadoop", "HealthApp", "Linux", "Mac"),
    *("OpenSSH", "OpenStack", "Proxifier", "Spark", "Thunderbird", "Windows", "Zookeeper"),
)
"""The systems whose logs loghub has, 2,000 lines of each with their templates."""

Row = Mapping[str, str]


class Clones(NamedTuple):
    """A folder of clones."""

    folder: Path

    def read(self, repository: str, path: str) -> str:
        """Returns a file of a repository."""
        place = self.folder / repository
        if (place / "repo").is_dir():
            place /= "repo"
        line = ["git", "-C", str(place), "show", f"HEAD:{path}"]
        printed = subprocess.run(line, capture_output=True, check=True).stdout
        return printed.decode("utf-8", "replace")

    def rows(self, repository: str, path: str, delimiter: str = ",") -> list[Row]:
        """Returns the rows of a CSV file of a repository."""
        text = self.read(repository, path)
        return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


class _Clusters:
    """Clusters that pairs of duplicates form, by the keys of their rows."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def find(self, key: str) -> str:
        while (parent := self._parents.get(key, key)) != key:
            key = parent
        return key

    def join(self, first: str, second: str) -> None:
        self._parents[self.find(first)] = self.find(second)


def _make_rows(
    rows: Iterable[tuple[str, Row]],
    pairs: Iterable[tuple[str, str]],
    left_out: Sequence[str],
    source: Callable[[str], str] = lambda key: "",
) -> list[LabelledRow]:
    """Returns rows by their keys, without some columns, in the clusters of pairs of keys."""
    clusters = _Clusters()
    for first, second in pairs:
        clusters.join(first, second)
    made = []
    for key, row in rows:
        fields = {
            name.rsplit("/", 1)[-1].rsplit("#", 1)[-1]: (value or "").strip() or None
            for name, value in row.items()
            if name and name not in left_out
        }
        if any(fields.values()):
            made.append(LabelledRow(clusters.find(key), fields, source(key)))
    return _with_equal_fields(made)


def _with_equal_fields(rows: Sequence[LabelledRow]) -> list[LabelledRow]:
    names = list(dict.fromkeys(name for row in rows for name in row.fields))
    return [row._replace(fields={name: row.fields.get(name) for name in names}) for row in rows]


def _join_sources(
    clones: Clones, folder: str, first: str, second: str, delimiter: str
) -> list[LabelledRow]:
    """Returns the rows of two sources of pyJedAI."""
    files = {
        "a": clones.rows(PYJEDAI, f"data/ccer/{folder}/{first}.csv", delimiter),
        "b": clones.rows(PYJEDAI, f"data/ccer/{folder}/{second}.csv", delimiter),
    }
    truth = clones.read(PYJEDAI, f"data/ccer/{folder}/gt.csv").splitlines()[1:]
    pairs = [line.replace(delimiter, "|").split("|")[:2] for line in truth]
    return _make_rows(
        ((f"{source}{row['id']}", row) for source, rows in files.items() for row in rows),
        ((f"a{one}", f"b{other}") for one, other in pairs),
        ["id"],
        source=lambda key: key[0],
    )


def _join_titles(clones: Clones, name: str) -> list[LabelledRow]:
    """Returns the titles of both sides of a set of AutoFuzzyJoin."""
    folder = f"src/autofj/benchmark/{name}"
    sides = {side: clones.rows(AUTOFJ, f"{folder}/{side}.csv") for side in ("left", "right")}
    pairs = clones.rows(AUTOFJ, f"{folder}/gt.csv")
    return _make_rows(
        ((f"{side}{row['id']}", row) for side, rows in sides.items() for row in rows),
        ((f"left{pair['id_l']}", f"right{pair['id_r']}") for pair in pairs),
        ["id"],
        source=lambda key: key[0],
    )


def _read_cora(clones: Clones) -> list[LabelledRow]:
    rows = clones.rows(PYJEDAI, "data/der/cora/cora.csv", "|")
    truth = clones.read(PYJEDAI, "data/der/cora/cora_gt.csv").split()
    pairs = (line.split("|")[:2] for line in truth)
    return _make_rows(
        ((row["Entity Id"], row) for row in rows),
        ((one, other) for one, other in pairs),
        ["Entity Id"],
    )


def _read_discs(clones: Clones) -> list[LabelledRow]:
    rows = clones.rows(PYJEDAI, "data/der/cddb/cddb.csv")
    pairs = clones.rows(PYJEDAI, "data/der/cddb/gt.csv")
    return _make_rows(
        ((row["id"], row) for row in rows),
        ((pair["id1"], pair["id2"]) for pair in pairs),
        ["id"],
    )


def _read_clustered(
    clones: Clones, repository: str, path: str, cluster: str, columns: Sequence[str]
) -> list[LabelledRow]:
    """Returns some columns of a file, by its column of clusters."""
    rows = clones.rows(repository, path)
    keys = [str(number) for number in range(len(rows))]
    firsts: dict[str, str] = {}
    pairs = [
        (key, firsts.setdefault(row[cluster], key))
        for key, row in zip(keys, rows, strict=True)
        if row[cluster]
    ]
    chosen = ({column: row[column] for column in columns} for row in rows)
    return _make_rows(zip(keys, chosen, strict=True), pairs, [])


def _read_febrl(clones: Clones) -> list[LabelledRow]:
    text = clones.read(SPLINK, "data/febrl/dataset3.csv")
    rows = list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
    return _make_rows(
        ((row["rec_id"], row) for row in rows),
        ((row["rec_id"], f"person {row['rec_id'].split('-')[1]}") for row in rows),
        ["rec_id"],
    )


def _join_matches(clones: Clones, name: str) -> list[LabelledRow]:
    """Returns the rows of a set of the Magellan project, as the repository of Ditto has them."""
    rows: dict[str, Row] = {}
    pairs = []
    for part in ("train", "valid", "test"):
        path = f"data/er_magellan/Structured/{name}/{part}.txt"
        for line in clones.read(DITTO, path).splitlines():
            first, second, label = line.split("\t")
            keys = f"a{first.strip()}", f"b{second.strip()}"
            rows |= {key: _parse_ditto(key[1:]) for key in keys}
            if label.strip() == "1":
                pairs.append(keys)
    return _make_rows(rows.items(), pairs, [], source=lambda key: key[0])


def _parse_ditto(text: str) -> Row:
    parts = (part.partition(" VAL ") for part in text.split("COL ")[1:])
    return {name.strip(): value.strip() for name, _, value in parts}


TITLES = (
    *("Device", "Hospital", "Country", "Drug", "Galaxy", "Election", "FootballMatch", "Case"),
    *("GivenName", "Award", "GovernmentAgency", "Enzyme", "HistoricBuilding"),
)
"""The sets of AutoFuzzyJoin that are used."""
OPEN_SETS: dict[str, Callable[[Clones], list[LabelledRow]]] = {
    "restaurants": partial(
        _join_sources, folder="D1", first="rest1", second="rest2", delimiter="|"
    ),
    "Abt, Buy": partial(_join_sources, folder="D2", first="abt", second="buy", delimiter="|"),
    "Amazon, Google": partial(
        _join_sources, folder="D3", first="amazon", second="gp", delimiter="#"
    ),
    "DBLP, ACM": partial(_join_sources, folder="D4", first="dblp", second="acm", delimiter="%"),
    "IMDB, TMDB": partial(_join_sources, folder="D5", first="imdb", second="tmdb", delimiter="|"),
    "IMDB, TVDB": partial(_join_sources, folder="D6", first="imdb", second="tvdb", delimiter="|"),
    "TMDB, TVDB": partial(_join_sources, folder="D7", first="tmdb", second="tvdb", delimiter="|"),
    "Walmart, Amazon": partial(
        _join_sources, folder="D8", first="walmart", second="amazon", delimiter="|"
    ),
    "Cora": _read_cora,
    "discs": _read_discs,
    "FEBRL 3": _read_febrl,
    "splink fake_1000": partial(
        _read_clustered,
        repository=SPLINK,
        path="data/fake_1000.csv",
        cluster="cluster",
        columns=("first_name", "surname", "dob", "city", "email"),
    ),
    "early childhood": partial(
        _read_clustered,
        repository=DEDUPE,
        path="csv_example/csv_example_input_with_true_ids.csv",
        cluster="True Id",
        columns=("Site name", "Address", "Zip", "Phone", "Agency", "Director", "Website"),
    ),
    "beers": partial(_join_matches, name="Beer"),
    "iTunes, Amazon": partial(_join_matches, name="iTunes-Amazon"),
    "Fodors, Zagats": partial(_join_matches, name="Fodors-Zagats"),
    **{f"AutoFJ {name}": partial(_join_titles, name=name) for name in TITLES},
}
"""The sets by name."""


def read_open_set(name: str, clones: Clones) -> LabelledSet:
    """Returns an open set. Of a large one, whole clusters are drawn.

    Args:
        name: Name of the set, one of `OPEN_SETS`.
        clones: Folder of clones.
    """
    rows = OPEN_SETS[name](clones)
    names = sorted({row.cluster for row in rows})
    random.Random(SEED).shuffle(names)
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row.cluster] = sizes.get(row.cluster, 0) + 1
    chosen: set[str] = set()
    total = 0
    for cluster in names:
        if total + sizes[cluster] <= MOST_ROWS:
            chosen.add(cluster)
            total += sizes[cluster]
    drawn = [row for row in rows if row.cluster in chosen]
    return build_set(name, "open", drawn, SEED, across=any(row.source for row in drawn))


def read_log(name: str, clones: Clones) -> LabelledSet:
    """Returns the lines of a log of loghub, in the clusters of their templates.

    Args:
        name: Name of the system, one of `LOGS`.
        clones: Folder of clones.
    """
    lines = clones.read(LOGHUB, f"{name}/{name}_2k.log").splitlines()
    templates = clones.rows(LOGHUB, f"{name}/{name}_2k.log_structured.csv")
    rows = [
        LabelledRow(template["EventId"], {"text": line})
        for template, line in zip(templates, lines, strict=True)
    ]
    return build_set(name, "logs", rows, SEED)
