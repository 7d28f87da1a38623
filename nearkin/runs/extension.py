"""The finished run that a run extends: what it takes over, and the ids of its clusters."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.engine.clustering import Clustering
from nearkin.engine.growth import LEFT, Growth
from nearkin.engine.persistent_clusters import NO_HISTORY, PersistentClusters, continue_clusters
from nearkin.engine.result_schema import PERSISTENT_COLUMN
from nearkin.engine.run import Run

CLUSTERS = "clusters.parquet"
"""The table of an output with a row for each document."""
HISTORY_FILE = "cluster_history.parquet"
"""The table of the clusters that merged, split or dissolved, of a run that extends another one."""


def name_identity(run: Path) -> str:
    """Returns the column of the ids that clusters of a run keep in those that extend it."""
    names = pq.read_schema(run / CLUSTERS).names
    return PERSISTENT_COLUMN.name if PERSISTENT_COLUMN.name in names else "cluster"


class Extension(NamedTuple):
    """The finished run that a run extends.

    Attributes:
        run: Output folder of the finished run.
        growth: What the run takes over, and what is new.
        identity: Values that must be unchanged for the run to be resumed.
    """

    run: Path
    growth: Growth
    identity: dict[str, object]

    def continue_clusters(self, run: Run, clustering: Clustering) -> PersistentClusters:
        """Returns the clusters of the run by the ids that they had in the finished run."""
        path = self.run / CLUSTERS
        name = name_identity(self.run)
        before = pq.read_table(path, columns=[name])[name].cast(pa.large_string())
        history = NO_HISTORY
        if (self.run / HISTORY_FILE).exists():
            history = pq.read_table(self.run / HISTORY_FILE)
        return continue_clusters(
            before.combine_chunks(),
            np.asarray(run.work.load(LEFT)),
            np.asarray(clustering.leader),
            run.documents().ids,
            history,
        )
