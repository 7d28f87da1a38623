"""Files with which a cluster starts a run and the processes of `nearkin work` for it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from nearkin.cli.command_line import ARGUMENTS
from nearkin.runtime.shell_quoting import join_command

OPTION = "--print"
"""The option that asks for a file, which its commands leave out."""
SLURM_FILE = """\
#!/bin/bash
# Submits the run and its {workers} workers to Slurm. Set what they may use, then run this file.
run=$(sbatch --parsable --job-name nearkin --cpus-per-task 8 --mem 32G <<'END'
#!/bin/bash
exec {run}
END
)
sbatch --job-name workers --array 1-{workers} --dependency "after:${{run%%;*}}" --mem 4G <<'END'
#!/bin/bash
exec {work}
END
"""
KUBERNETES_FILE = """\
# Set the image, the claim of the shared volume, and what containers may use.
apiVersion: batch/v1
kind: Job
metadata: {{name: nearkin}}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: nearkin
          image: nearkin
          command: {run}
          workingDir: {folder}
          resources: {{requests: {{cpu: 8, memory: 32Gi}}, limits: {{memory: 32Gi}}}}
          volumeMounts: [{{name: shared, mountPath: {mount}}}]
      volumes: [{{name: shared, persistentVolumeClaim: {{claimName: shared}}}}]
---
apiVersion: batch/v1
kind: Job
metadata: {{name: nearkin-work}}
spec:
  parallelism: {workers}
  template:
    spec:
      restartPolicy: OnFailure
      containers:
        - name: nearkin
          image: nearkin
          command: {work}
          workingDir: {folder}
          resources: {{requests: {{cpu: 1, memory: 4Gi}}, limits: {{memory: 4Gi}}}}
          volumeMounts: [{{name: shared, mountPath: {mount}}}]
      volumes: [{{name: shared, persistentVolumeClaim: {{claimName: shared}}}}]
"""
MAKE_FILE = """\
# make -j {processes} -f FILE starts the run and its {workers} workers on this machine. Others:
# seq {workers} | xargs -P {workers} -I{{}} {shell_work}
SHELL := /bin/bash
WORKERS := $(addprefix worker-,$(shell seq {workers}))
.PHONY: all run $(WORKERS)
all: run $(WORKERS)
run:
\t{run}
$(WORKERS):
\t{work}
"""


@dataclass(frozen=True)
class JobFiles:
    """The commands of a run and of its workers.

    Attributes:
        run: The words of the command of the run.
        work: The words of the command of a worker.
        workers: Number of workers.
        folder: Folder in which the commands start.
    """

    run: Sequence[str]
    work: Sequence[str]
    workers: int
    folder: Path

    @classmethod
    def of_command(cls, work: Path, workers: int) -> "JobFiles":
        """Returns the commands for the command that runs, whose work folder this is."""
        given = ARGUMENTS.get()
        words = [
            word
            for before, word in pairwise(["nearkin", *given])
            if OPTION not in (before, word.partition("=")[0])
        ]
        return cls(["nearkin", *words], ["nearkin", "work", str(work)], workers, Path.cwd())

    def slurm(self) -> str:
        """Returns a script that submits the run, and workers that start after it."""
        return SLURM_FILE.format(
            run=join_command(self.run), work=join_command(self.work), workers=self.workers
        )

    def kubernetes(self) -> str:
        """Returns a Job for the run, which is not repeated, and one for all workers."""
        return KUBERNETES_FILE.format(
            run=_to_yaml(self.run),
            work=_to_yaml(self.work),
            workers=self.workers,
            folder=_to_yaml(str(self.folder)),
            mount=_to_yaml(f"/{(self.folder / self.work[-1]).parts[1]}"),
        )

    def make(self) -> str:
        """Returns a makefile whose targets are the run and its workers."""
        return MAKE_FILE.format(
            run=join_command(self.run).replace("$", "$$"),
            work=join_command(self.work).replace("$", "$$"),
            shell_work=join_command(self.work),
            workers=self.workers,
            processes=self.workers + 1,
        )


def _to_yaml(value: str | Sequence[str]) -> str:
    """Returns JSON, in which Kubernetes finds no names of variables."""
    return json.dumps(value, ensure_ascii=False).replace("$(", "$$(")


FORMS: Mapping[str, Callable[[JobFiles], str]] = {
    "slurm": JobFiles.slurm,
    "k8s": JobFiles.kubernetes,
    "make": JobFiles.make,
}
"""The systems that start jobs."""
