"""The cores and the memory that this process may use: those of the machine or of its container.

Containers are limited by control groups (cgroups). A limit of a group holds for all groups inside
it, so the smallest one on the way to the root counts. Versions 1 and 2 are read.
"""

import math
import os
import resource
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")
MEMORY_SHARE = 2
"""By default, a run may use the memory of the process divided by this."""
LEAST_MEMORY = 512 << 20
"""The smallest memory bound of a run, in bytes."""
NO_LIMIT = "max"
"""What a group of version 2 has in place of a limit."""


def available_cores(root: Path = ROOT) -> int:
    """Returns the number of cores that this process may use.

    It is the number of cores that the process may run on, or the quota of its control groups,
    rounded up.
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return min([cores, *(max(1, math.ceil(quota)) for quota in _core_quotas(root))])


def workers_or_cores(workers: int | None) -> int:
    """Returns the number of threads that was given, or the number of cores of this process."""
    return available_cores() if workers is None else workers


def available_memory(root: Path = ROOT) -> int:
    """Returns the memory that this process may use, in bytes.

    It is the memory of the machine, the smallest limit of the control groups, or the limit of the
    process itself (`ulimit`).
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_memory_limits(root)]
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            limits.append(soft)
    return min(limits)


def default_memory(root: Path = ROOT) -> int:
    """Returns the default bound of the memory of a run, in bytes.

    It is half of what the process may use, because other processes and the caches of the system
    need memory too, and at least 512 MiB.
    """
    return max(LEAST_MEMORY, available_memory(root) // MEMORY_SHARE)


def _core_quotas(root: Path) -> Iterator[float]:
    """Yields the number of cores of each control group that limits them."""
    for folder in _groups(root, "cpu"):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if not quota:
            quota = _read(folder / "cpu.cfs_quota_us")
            period = _read(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(period):
            yield int(quota) / int(period)


def _memory_limits(root: Path) -> Iterator[int]:
    """Yields the limit of each control group that limits memory, in bytes."""
    for folder in _groups(root, "memory"):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        if limit.isdecimal():
            yield int(limit)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yields the folders of the control groups of this process, from its own to the root.

    In a container, the path of its group may be that of the host, which it does not see. The root
    of what it sees is then its own group.
    """
    mounted = root / "sys" / "fs" / "cgroup"
    for line in _read(root / "proc" / "self" / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            bases = [mounted, mounted / "unified"]
        elif controller in controllers.split(","):
            bases = [mounted / controllers, mounted / controller]
        else:
            continue
        for base in bases:
            own = base / path.strip("/")
            folders = [own, *own.parents]
            yield from folders[: folders.index(base) + 1]


def _read(path: Path) -> str:
    """Returns the content of a file of the system, or nothing if it cannot be read."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
