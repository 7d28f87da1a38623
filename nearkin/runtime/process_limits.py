"""The cores and the memory that this process may use: those of the machine or of its container.

Containers are limited by control groups (cgroups). A limit of a group holds for all groups inside
it, so the smallest one on the way to the root counts. Versions 1 and 2 are read.
"""

import math
import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")
MEMORY_SHARE = 2
"""By default, a run may use the memory of the process divided by this."""
LEAST_MEMORY = 512 << 20
"""The smallest memory bound of a run, in bytes."""
MEMORY_FILES = ("memory.max", "memory.high", "memory.limit_in_bytes")
"""The files of limits of memory. Above `memory.high`, processes are slowed down."""
HIERARCHICAL_LIMIT = re.compile(r"^hierarchical_memory_limit (\d+)$", re.MULTILINE)
"""The least limit of a group of version 1 and of all groups around it, in its statistics."""


def available_cores(root: Path = ROOT) -> int:
    """Returns the number of cores that this process may use.

    It is the number of cores that the process may run on (those of its cpusets), or the quota of
    its control groups, rounded up.
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
        limits = [_read(folder / name) for name in MEMORY_FILES]
        # a container does not see the groups around its own, but version 1 states their limit
        limits += HIERARCHICAL_LIMIT.findall(_read(folder / "memory.stat"))
        yield from (int(limit) for limit in limits if limit.isdecimal())


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yields the folders of the control groups of this process, from its own to the root."""
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
            yield from _groups_from(base, path)


def _groups_from(base: Path, path: str) -> Iterator[Path]:
    """Yields the folder of a control group and those of the groups around it, up to the root.

    In a container, the path may be that of the host, of which only the end may be visible: the
    root of what it sees is then a group somewhere in the path, or the group itself.
    """
    names = [name for name in path.split("/") if name]
    ends = [names[first:] for first in range(len(names))]
    visible = next((end for end in ends if base.joinpath(*end).is_dir()), [])
    for end in [names] if visible == names else [names, visible]:
        yield from (base.joinpath(*end[:count]) for count in range(len(end), -1, -1))


def _read(path: Path) -> str:
    """Returns the content of a file of the system, or nothing if it cannot be read."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
