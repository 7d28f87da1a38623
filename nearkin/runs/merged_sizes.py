"""The sizes of clusters over several runs, from their kept documents alone.

The kept documents of all runs are deduplicated with the settings of the runs. The size of a cluster
is the sum of the sizes that its documents had in their runs. So the removed documents of the runs
are counted and not read again.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import FileCorpus, list_kept
from nearkin.corpus.input_file import InputFile
from nearkin.engine.cluster_columns import CLUSTER_SIZE, CLUSTER_SOURCES, SOURCE_COUNTS
from nearkin.engine.clustering import Clustering
from nearkin.engine.documents import Documents
from nearkin.engine.options import RunOptions
from nearkin.engine.run import Run
from nearkin.engine.second_measure import to_final_clusters
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.runs.run_record import RUN, RunRecord, read_run_record
from nearkin.runtime.outputs import read_marker
from nearkin.runtime.progress import Progress
from nearkin.runtime.setting_names import name_flag, name_setting
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.stages.sketch.resources import SpecResources

KEPT = "kept"
"""The folder of kept documents in the output of a run."""


def merge_sizes(folders: Sequence[Path], progress: Progress) -> pa.Table:
    """Returns the sizes of the clusters over several runs."""
    records = [read_run_record(folder / RUN) for folder in folders]
    _require_different_runs(folders)
    for folder, record in zip(folders, records, strict=True):
        _require_sizes(folder, record)
        _require_same_settings(folders[0], records[0], folder, record)
    spec = records[0].spec
    spec.require_key(None)
    options = RunOptions.from_parameters(records[0].parameters, spec)
    columns = records[0].columns_of(folders[0])
    carried = [*options.carried_columns, CLUSTER_SIZE]
    if options.source is not None:
        carried.append(CLUSTER_SOURCES)
    columns = replace(columns, carried_columns=tuple(carried))
    corpus = FileCorpus([file for folder in folders for file in _list_kept_files(folder)])
    resources = SpecResources.read(folders[0], spec, None)
    with TemporaryFolder() as work_path:
        work = WorkFolder.create(work_path / "work", {}, durable=False)
        run = Run(corpus, columns, options, work, progress, resources)
        clustering = to_final_clusters(run)
        counted = sum(_count_clustered(record) for record in records)
        sizes = _read_sizes(run.documents(), counted)
        return _sum_sizes(run.documents(), clustering, sizes, options)


def _require_different_runs(folders: Sequence[Path]) -> None:
    """Requires that no run is given twice, also not through a link or a copy of its folder."""
    folder_of: dict[str, Path] = {}
    for folder in folders:
        marker = read_marker(folder)
        run_id = os.path.realpath(folder) if marker is None else marker["run"]
        if run_id in folder_of:
            raise UsageError(
                f"{folder} is the same run as {folder_of[run_id]}, so that its documents would "
                "count twice; give each run once"
            )
        folder_of[run_id] = folder


def _require_sizes(folder: Path, record: RunRecord) -> None:
    """Requires that each kept document of a run has the size of its cluster."""
    request = record.require_files(folder)
    has_all_rows = request.annotate or request.document_weights is not None
    if not request.sizes or has_all_rows or "keep_up_to" in record.parameters:
        raise UsageError(
            f"the run {folder} did not write one document of each cluster with its size; run "
            f"nearkin dedup with {name_flag('sizes')}, and without {name_flag('annotate')}, "
            f"{name_setting('document_weights')} and {name_setting('keep_up_to')}"
        )


def _require_same_settings(
    first_folder: Path, first: RunRecord, folder: Path, record: RunRecord
) -> None:
    """Requires that two runs have the same Spec, options and columns."""
    is_same = (
        first.spec_json == record.spec_json
        and first.parameters == record.parameters
        and first.require_files(first_folder).columns == record.require_files(folder).columns
    )
    if not is_same:
        raise UsageError(
            f"{folder} was made with other settings than {first_folder}; run nearkin dedup with "
            "the same options for both"
        )


def _list_kept_files(folder: Path) -> list[InputFile]:
    """Returns the files of kept documents of a run, in the order of their names."""
    files = list_kept(folder / KEPT, folder)
    return [replace(file, name=(folder / file.name).as_posix()) for file in files]


def _count_clustered(record: RunRecord) -> int:
    """Returns the number of documents of a run in the clusters of its kept documents."""
    names = ("kept", "removed_exact", "removed_near", "removed_vector", "removed_same")
    return sum(record.counts.get(name, 0) for name in names)


def _read_sizes(documents: Documents, counted: int) -> np.ndarray:
    """Returns the size that each kept document had in its run, int64 (n,)."""
    try:
        sizes = documents.carried[CLUSTER_SIZE].cast(pa.int64())
    except pa.ArrowInvalid:
        sizes = None
    total = None if sizes is None or sizes.null_count else pc.sum(sizes).as_py() or 0
    if sizes is None or total != counted:
        raise UsageError(
            f"the values of {CLUSTER_SIZE} in the kept documents do not add up to the {counted:,} "
            f"documents of the runs, because rows had a field {CLUSTER_SIZE} before, or the kept "
            "documents were changed; rename the field of the inputs, and run nearkin dedup again"
        )
    return np.asarray(sizes.to_numpy())


def _sum_sizes(
    documents: Documents, clustering: Clustering, own_sizes: np.ndarray, options: RunOptions
) -> pa.Table:
    """Returns the sizes of clusters, each in the row of its kept document."""
    kept = np.flatnonzero(clustering.kept)
    leader = np.asarray(clustering.leader)
    sizes = np.zeros(len(leader), np.int64)
    carried = documents.carried
    np.add.at(sizes, leader, own_sizes)
    table = pa.table({"id": documents.ids.take(pa.array(kept)), CLUSTER_SIZE: sizes[kept]})
    if options.source is None:
        return table
    totals: dict[int, Counter[str]] = {}
    texts = carried[CLUSTER_SOURCES].to_pylist()
    for number, text, size in zip(leader.tolist(), texts, own_sizes.tolist(), strict=True):
        totals.setdefault(number, Counter()).update(_read_counts(text, size))
    entries = [sorted(totals[number].items()) for number in kept.tolist()]
    return table.append_column(CLUSTER_SOURCES, pa.array(entries, SOURCE_COUNTS))


def _read_counts(text: str | None, size: int) -> dict[str, int]:
    """Returns the number of documents of each source from the text of a carried column.

    Examples:
        >>> _read_counts('{"web":2}', 2), _read_counts('[{"key":"web","value":2}]', 2)
        ({'web': 2}, {'web': 2})
    """
    try:
        counts = orjson.loads(text or "null")
        if not isinstance(counts, dict):
            counts = {entry["key"]: entry["value"] for entry in counts}
        is_whole = all(type(count) is int and count > 0 for count in counts.values())
    except (ValueError, TypeError, KeyError):
        is_whole = False
    if not is_whole or sum(counts.values()) != size:
        raise UsageError(
            f"the value {str(text)[:60]} of {CLUSTER_SOURCES} in a kept document does not add up "
            f"to the {size:,} documents of its cluster, because rows had a field {CLUSTER_SOURCES} "
            "before, or the kept documents were changed; rename the field of the inputs, and run "
            "nearkin dedup again"
        )
    return counts
