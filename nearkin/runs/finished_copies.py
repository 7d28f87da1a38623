"""The copies of a finished run that a run which extends it need not make again."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nearkin.corpus.file_names import join_inside, make_output_names
from nearkin.engine.clustering import Clustering
from nearkin.engine.growth import LEFT
from nearkin.engine.run import Run
from nearkin.engine.work_folder import map_file
from nearkin.runs.document_output import KEPT
from nearkin.runs.job import Job
from nearkin.runs.saved import COMPARISON, SIGNATURES
from nearkin.runtime.files import to_json

COPIES = "copies.json"
"""The file of the name, the size and the time of the copy of each input, or null."""


def write_copies(names: Sequence[str], out: Path) -> None:
    """Writes down the copies of an output, from which it is seen later if somebody changes them."""
    copies: list[list[object] | None] = []
    for name in make_output_names(names):
        path = join_inside(out / KEPT, name)
        status = path.stat() if path.is_file() else None
        copies.append(None if status is None else [name, status.st_size, status.st_mtime_ns])
    (out / COMPARISON / COPIES).write_bytes(to_json(copies))


def find_finished_copies(job: Job, run: Run, clustering: Clustering) -> dict[int, Path]:
    """Returns copies that the run which a job extends has made of the same documents.

    They are those of files of which it kept the same documents, by the numbers of the files.
    """
    output = job.documents
    has_new_values = bool(output.added_names(run.options.source)) or output.merge is not None
    if job.extension is None or job.annotate or has_new_values:
        return {}
    before = job.extension.run
    try:
        copies = json.loads((before / COMPARISON / COPIES).read_bytes())
    except (OSError, ValueError):
        return {}
    left = np.asarray(run.work.load(LEFT))
    was_kept = job.extension.growth.kept
    is_kept = np.zeros(len(left), bool)
    is_kept[left] = np.asarray(clustering.kept)[: np.count_nonzero(left)]
    files = map_file(before / SIGNATURES / "files", np.int32)
    changed = set(files[is_kept != was_kept].tolist())
    finished: dict[int, Path] = {}
    for number, copy in enumerate(copies):
        if copy is None or number in changed:
            continue
        path = join_inside(before / KEPT, copy[0])
        # A copy that somebody has changed since is made again.
        if path.is_file() and [path.stat().st_size, path.stat().st_mtime_ns] == copy[1:]:
            finished[number] = path
    return finished
