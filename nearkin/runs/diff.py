"""The differences between two runs: documents and clusters that changed, and why.

The tables of clusters of both runs are joined by the ids of their documents, in memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.engine.changed_settings import SettingChange, list_changes
from nearkin.engine.result_schema import PERSISTENT_COLUMN
from nearkin.errors import UsageError
from nearkin.runs.extension import name_identity
from nearkin.runs.results import ResultTable, TableResult
from nearkin.runs.run_record import RUN, FileRun, RunRecord, read_run_record
from nearkin.runs.saved import SavedRun
from nearkin.runtime.argument_types import check_arguments

BEFORE = "_before"
AFTER = "_after"
NONE = -1
"""The number of a document or cluster that a run does not have."""
COUNTED = ("frequencies", "cut")
"""The entries of a Spec that name counts over a corpus."""


class DocumentChange(StrEnum):
    """A change of a document between two runs."""

    REMOVED = "became removed"
    KEPT = "became kept"
    NEW = "new"
    WITHDRAWN = "withdrawn"


class ClusterChange(StrEnum):
    """A change of a cluster of at least two documents between two runs."""

    FORMED = "formed"
    GREW = "grew"
    MERGED = "merged"
    DISSOLVED = "dissolved"
    SHRANK = "shrank"
    SPLIT = "split"


DOCUMENTS = pa.schema(
    [
        ("id", pa.large_string()),
        ("change", pa.large_string()),
        ("reason", pa.large_string()),
        ("cluster_before", pa.large_string()),
        ("cluster_after", pa.large_string()),
        ("kept_before", pa.bool_()),
        ("kept_after", pa.bool_()),
    ]
)
"""The schema of the documents that changed. New and withdrawn ones have no reason."""
NEW_DOCUMENT = "new document"
"""The reason of a removal whose kept document is new."""
WITHDRAWN_DOCUMENT = "withdrawn document"
"""The reason why a document became kept whose kept document is not in the second run."""
CLUSTERS = pa.schema(
    [
        ("change", pa.large_string()),
        ("cluster_before", pa.large_string()),
        ("cluster_after", pa.large_string()),
        ("documents_before", pa.int64()),
        ("documents_after", pa.int64()),
        ("documents_shared", pa.int64()),
    ]
)
"""The schema of the clusters that changed. A merged or split cluster has a row for each part."""


@dataclass(frozen=True, kw_only=True, repr=False)
class DiffResult(TableResult):
    """The differences between two runs. Its forms are those of `documents`.

    Attributes:
        documents: Documents that became kept or removed, are new, or were withdrawn, ordered by
            id, with the columns id, change, reason, cluster_before, cluster_after (the id of the
            kept document of the cluster, or its persistent id if the second run extends another
            one), kept_before and kept_after. A reason is a new document, a withdrawn one, or what
            differs between the runs otherwise, for example `settings or inputs`.
        clusters: Clusters of at least two documents that were formed, grew, merged, dissolved,
            shrank or split, with the columns change, cluster_before, cluster_after,
            documents_before, documents_after and documents_shared. A merged or split cluster has a
            row for each part.
        settings: Settings that differ.
        versions: Versions of nearkin of both runs.
        same_inputs: Whether the inputs have the same content. None if a run was over data in
            memory, whose content is not recorded.
    """

    documents: ResultTable
    clusters: ResultTable
    settings: tuple[SettingChange, ...]
    versions: tuple[str, str]
    same_inputs: bool | None

    @property
    def _table(self) -> ResultTable:
        return self.documents

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of documents and of clusters by what happened to them."""
        counted = _count(self.documents.arrow["change"])
        # a cluster that merged with others has several rows
        for side, changes in (("cluster_after", AFTER_CHANGES), ("cluster_before", BEFORE_CHANGES)):
            rows = self.clusters.arrow.filter(pc.is_in(self.clusters["change"], pa.array(changes)))
            counted |= _count(rows.group_by(["change", side]).aggregate([])["change"])
        names = [*DocumentChange, *ClusterChange]
        return {name.replace(" ", "_"): counted.get(name, 0) for name in names}

    @property
    def has_changes(self) -> bool:
        """True if a document or a cluster changed."""
        return len(self.documents) > 0 or len(self.clusters) > 0

    def describe(self) -> list[str]:
        """Returns the changes in a few sentences."""
        counts = {name.replace("_", " "): count for name, count in self.counts.items() if count}
        lines = []
        for noun, changes in (("Documents", DocumentChange), ("Clusters", ClusterChange)):
            parts = [f"{counts[name]:,} {name}" for name in changes if name in counts]
            lines.append(f"{noun}: {', '.join(parts) or 'no changes'}.")
        if self.settings:
            described = [
                f"{change.setting}: {_format(change.before)} -> {_format(change.after)}"
                for change in self.settings
            ]
            lines.append(f"Settings that differ: {'; '.join(described)}.")
        if self.versions[0] != self.versions[1]:
            lines.append(f"Versions of nearkin: {self.versions[0]} -> {self.versions[1]}.")
        if self.same_inputs is None:
            lines.append("It is unknown whether the contents of the inputs differ.")
        elif not self.same_inputs:
            lines.append("The contents of the inputs differ.")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts and the differences of the settings, as `--json` prints them."""
        return {
            "changed": self.has_changes,
            "counts": self.counts,
            "settings": [change._asdict() for change in self.settings],
            "versions": list(self.versions),
            "same_inputs": self.same_inputs,
        }

    def __repr__(self) -> str:
        parts = [
            f"{count:,} {name.replace('_', ' ')}" for name, count in self.counts.items() if count
        ]
        return f"<DiffResult: {', '.join(parts) or 'no changes'}>"


AFTER_CHANGES = [ClusterChange.FORMED, ClusterChange.GREW, ClusterChange.MERGED]
"""The changes of a cluster of the second run: no, one or several clusters of the first one."""
BEFORE_CHANGES = [ClusterChange.DISSOLVED, ClusterChange.SHRANK, ClusterChange.SPLIT]
"""The changes of a cluster of the first run: no, one or several clusters of the second one."""


def _format(value: object) -> str:
    """Returns the value of a setting for a sentence."""
    if value is None:
        return "none"
    return repr(",".join(map(str, value)) if isinstance(value, list) else value)


def _count(changes: pa.ChunkedArray) -> dict[str, int]:
    return {row["values"]: row["counts"] for row in pc.value_counts(changes).to_pylist()}


@check_arguments
def diff(first: str | Path, second: str | Path) -> DiffResult:
    """Compares two runs over a collection, for example over the dumps of two days.

    Both runs need a column of ids. Row numbers do not identify documents when rows are added.

    Args:
        first: Output folder of the earlier run.
        second: Output folder of the later run.

    Returns:
        The documents and the clusters that changed, with the reasons.

    Raises:
        UsageError: If a folder is not the output of `dedup`, or an id occurs twice in one.
    """
    runs = [
        SavedRun(folder, read_run_record(folder / RUN)) for folder in (Path(first), Path(second))
    ]
    # clusters keep their ids in a run that extends another one
    is_grown = name_identity(runs[1].folder) == PERSISTENT_COLUMN.name
    before, after = (_read_documents(run, by_identity=is_grown) for run in runs)
    first_record, second_record = (run.record for run in runs)
    settings = tuple(list_changes(_list_settings(first_record), _list_settings(second_record)))
    same_inputs = _have_same_inputs(first_record, second_record)
    versions = (first_record.version, second_record.version)
    causes = {
        "settings": bool(settings),
        "version": versions[0] != versions[1],
        "inputs": same_inputs is False,
    }
    general = " or ".join(name for name, differs in causes.items() if differs) or "unknown"
    joined = JoinedRuns(before, after)
    return DiffResult(
        documents=ResultTable(joined.list_documents(general)),
        clusters=ResultTable(joined.list_clusters()),
        settings=settings,
        versions=versions,
        same_inputs=same_inputs,
    )


def _read_documents(run: SavedRun, *, by_identity: bool) -> pa.Table:
    """Returns the documents of a run, with their ids, the kept documents and the clusters as texts.

    Args:
        by_identity: Whether clusters are named by their persistent ids, if they have them. By
            default, the kept document names a cluster.
    """
    identity = name_identity(run.folder) if by_identity else "cluster"
    read = run.read_clusters(list(dict.fromkeys(("id", "cluster", "kept", identity))))
    names = {"id": "id", "leader": "cluster", "cluster": identity}
    texts = {name: read[column].cast(pa.large_string()) for name, column in names.items()}
    clusters = pa.table({**texts, "kept": read["kept"]})
    if pc.count_distinct(clusters["id"]).as_py() < len(clusters):
        counted = clusters.group_by("id").aggregate([([], "count_all")])
        repeated = counted.filter(pc.field("count_all") > 1)["id"]
        raise UsageError(
            f"{repeated[0].as_py()!r} is the id of several documents of {run.folder}, as are "
            f"{len(repeated) - 1:,} other ids; only runs with unique ids can be compared"
        )
    return clusters


def _list_settings(record: RunRecord) -> Mapping[str, object]:
    """Returns what decides the result of a run apart from its inputs."""
    # the counts over a corpus follow from it
    spec = {name: value for name, value in record.spec_json.items() if name not in COUNTED}
    settings: dict[str, object] = {"spec": spec, "parameters": record.parameters}
    if isinstance(record, FileRun):
        settings["columns"] = record.columns
        settings["decisions"] = record.decisions and record.decisions.fingerprint
        settings["blocklist"] = record.blocklist and record.blocklist.fingerprint
        settings["against"] = record.against and list(record.against.paths)
    return settings


def _have_same_inputs(first: RunRecord, second: RunRecord) -> bool | None:
    """Returns whether the inputs of two runs have the same content. None if it is unknown."""
    if not (isinstance(first, FileRun) and isinstance(second, FileRun)):
        return None
    before, after = (
        sorted((entry["sha256"], entry["size"]) for entry in record.inputs)
        for record in (first, second)
    )
    return before == after


class JoinedRuns:
    """The documents of two runs by their numbers. The ids of few documents are needed again.

    Args:
        before: Documents of the first run, with unique ids.
        after: Documents of the second run, with unique ids.
    """

    def __init__(self, before: pa.Table, after: pa.Table) -> None:
        self._before = before
        self._after = after
        places = pc.index_in(after["id"], before["id"]).fill_null(NONE).to_numpy()
        self._new = np.flatnonzero(places == NONE)
        self._shared_after = np.flatnonzero(places != NONE)
        self._shared_before = places[self._shared_after]
        is_withdrawn = np.ones(len(before), bool)
        is_withdrawn[self._shared_before] = False
        self._withdrawn = np.flatnonzero(is_withdrawn)

    def list_documents(self, general: str) -> pa.Table:
        """Returns the documents that changed.

        Args:
            general: The reason of changes that no new or withdrawn document explains.
        """
        kept_before = self._before["kept"].to_numpy()[self._shared_before]
        kept_after = self._after["kept"].to_numpy()[self._shared_after]
        removed, kept = kept_before & ~kept_after, ~kept_before & kept_after
        changed = {
            DocumentChange.NEW: (np.full_like(self._new, NONE), self._new),
            DocumentChange.WITHDRAWN: (self._withdrawn, np.full_like(self._withdrawn, NONE)),
            DocumentChange.REMOVED: (self._shared_before[removed], self._shared_after[removed]),
            DocumentChange.KEPT: (self._shared_before[kept], self._shared_after[kept]),
        }
        numbers = np.concatenate([np.stack(pair) for pair in changed.values()], axis=1)
        before, after = (
            run.take(pa.array(row, mask=row == NONE))
            for run, row in zip((self._before, self._after), numbers, strict=True)
        )
        counts = [len(pair[0]) for pair in changed.values()]
        change = pa.array(np.repeat([str(name) for name in changed], counts), pa.large_string())
        new_ids = self._after["id"].take(pa.array(self._new))
        withdrawn_ids = self._before["id"].take(pa.array(self._withdrawn))
        became_removed = pc.equal(change, str(DocumentChange.REMOVED))
        became_kept = pc.equal(change, str(DocumentChange.KEPT))
        reasons = pc.make_struct(
            pc.and_(became_removed, pc.is_in(after["leader"], new_ids)),
            pc.and_(became_kept, pc.is_in(before["leader"], withdrawn_ids)),
            pc.or_(became_removed, became_kept),
        )
        columns = {
            "id": pc.coalesce(before["id"], after["id"]),
            "change": change,
            "reason": pc.case_when(reasons, NEW_DOCUMENT, WITHDRAWN_DOCUMENT, general),
            f"cluster{BEFORE}": before["cluster"],
            f"cluster{AFTER}": after["cluster"],
            f"kept{BEFORE}": before["kept"],
            f"kept{AFTER}": after["kept"],
        }
        return pa.table(columns).cast(DOCUMENTS).sort_by("id")

    def list_clusters(self) -> pa.Table:
        """Returns the clusters that changed: those of the second run, then those of the first."""
        before, names_before = _number_clusters(self._before["cluster"])
        after, names_after = _number_clusters(self._after["cluster"])
        sizes_before, sizes_after = _count_documents(before), _count_documents(after)
        width = max(len(names_after), 1)
        joined = before[self._shared_before] * width + after[self._shared_after]
        links, shared = np.unique(joined, return_counts=True)
        link_before, link_after = links // width, links % width
        # a document alone is not a cluster
        is_real = (sizes_before[link_before] > 1) & (sizes_after[link_after] > 1)
        links = np.column_stack([link_before, link_after, shared])[is_real]
        of_second = _relate(links[:, [1, 0, 2]], sizes_after)
        of_first = _relate(links, sizes_before)[:, [0, 2, 1, 3]]
        places = np.concatenate([of_second[:, 0], of_first[:, 0] + len(AFTER_CHANGES)])
        labels = np.array([*AFTER_CHANGES, *BEFORE_CHANGES], dtype=object)
        rows = np.concatenate([of_second, of_first])
        of_after = rows[:, 1]
        of_before = rows[:, 2]
        columns = [
            pa.array(labels[places], pa.large_string()),
            names_before.take(pa.array(of_before, mask=of_before == NONE)),
            names_after.take(pa.array(of_after, mask=of_after == NONE)),
            pa.array(sizes_before[of_before]),
            pa.array(sizes_after[of_after]),
            pa.array(rows[:, 3]),
        ]
        return pa.table(columns, schema=CLUSTERS)


def _number_clusters(clusters: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """Returns a number for the cluster of each document, int64 (documents,), and their ids."""
    encoded = clusters.combine_chunks().dictionary_encode()
    return encoded.indices.cast(pa.int64()).to_numpy(), encoded.dictionary


def _count_documents(numbers: np.ndarray) -> np.ndarray:
    """Returns the size of each cluster, and 0 for NONE, int64 (clusters + 1,)."""
    return np.append(np.bincount(numbers), 0)


def _relate(links: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns how the clusters of one run changed, seen from the clusters of the other one.

    Args:
        links: Rows of a cluster of the run, one of the other run, and the number of documents that
            they share, int64 (links, 3).
        sizes: Number of documents of each cluster of the run, and 0, int64 (clusters + 1,).

    Returns:
        Rows of the number of other clusters (0, 1, or 2 for several), the cluster, the other
        cluster or NONE, and the documents that they share, int64 (rows, 4).
    """
    own = links[:, 0]
    shared = links[:, 2]
    partners = np.bincount(own, minlength=len(sizes))
    alone = np.flatnonzero((sizes > 1) & (partners == 0))
    is_changed = (partners[own] > 1) | (shared < sizes[own])
    linked = np.column_stack([np.minimum(partners[own], 2), links])[is_changed]
    nothing = np.zeros_like(alone)
    return np.concatenate([np.column_stack([nothing, alone, nothing + NONE, nothing]), linked])
