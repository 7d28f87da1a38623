"""The progress of Spark's tasks, in documents or pairs of the stage of a run."""

import threading
from types import TracebackType

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from nearkin.runtime.progress import Progress

SECONDS_BETWEEN_READINGS = 0.5
"""Time between two readings of the number of finished tasks, in seconds."""


class TaskProgress:
    """Counts the documents or pairs of a stage from the share of its tasks that are finished.

    Spark starts the tasks of a step (a table that is written) when those before have ended. So each
    step counts as the same share of the stage, and within a step the tasks that Spark has begun
    count. Some stages have further steps, for example for repeated ids. They count nothing.
    """

    def __init__(
        self, spark: SparkSession, group: str, progress: Progress, units: int | None, steps: int
    ) -> None:
        """Creates a counter. A context starts and ends it."""
        self._tracker = spark.sparkContext.statusTracker()
        self._group = group
        self._progress = progress
        self._units = units
        self._steps = steps
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._finished_steps = 0
        self._finished_jobs: set[int] = set()
        self._counted = 0

    def __enter__(self) -> "TaskProgress":
        if self._units is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._units is not None:
            self._is_closed.set()
            self._thread.join()
            if kind is None:
                self._count_share(1.0)

    def finish_step(self) -> None:
        """Counts a step as finished."""
        if self._units is None:
            return
        with self._lock:
            self._finished_steps += 1
            self._finished_jobs = set(self._tracker.getJobIdsForGroup(self._group))
        self._count_share(self._finished_steps / self._steps)

    def _watch(self) -> None:
        while not self._is_closed.wait(SECONDS_BETWEEN_READINGS):
            try:
                with self._lock:
                    share = (self._finished_steps + self._share_of_tasks()) / self._steps
            except Py4JError:
                # the session ended, which the run itself reports
                return
            self._count_share(share)

    def _share_of_tasks(self) -> float:
        """Returns the share of finished tasks among those of the jobs of the current step."""
        tasks = 0
        finished_tasks = 0
        for job in self._tracker.getJobIdsForGroup(self._group):
            job_info = None if job in self._finished_jobs else self._tracker.getJobInfo(job)
            for stage in () if job_info is None else job_info.stageIds:
                stage_info = self._tracker.getStageInfo(stage)
                if stage_info is not None:
                    tasks += stage_info.numTasks
                    finished_tasks += stage_info.numCompletedTasks
        return finished_tasks / max(tasks, 1)

    def _count_share(self, share: float) -> None:
        """Counts the units up to a share of the stage. The count never falls."""
        with self._lock:
            counted = int((self._units or 0) * min(share, 1.0))
            if counted > self._counted:
                self._progress.advance(counted - self._counted)
                self._counted = counted
