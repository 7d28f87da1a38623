"""Tests of the cores and the memory that a process may use, with made-up control groups."""

import os
import resource
from pathlib import Path

import pytest

from nearkin.corpus.columns import Columns
from nearkin.engine.options import RunOptions
from nearkin.engine.parameters import memory_of
from nearkin.errors import UsageError
from nearkin.runtime.process_limits import (
    LEAST_MEMORY,
    available_cores,
    available_memory,
    default_memory,
)
from nearkin.runtime.sizes import AutomaticMemory, parse_memory

CORES = 64
MEMORY = 256 << 30


@pytest.fixture(autouse=True)
def large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with many cores, much memory and no limits of the process."""
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": MEMORY // 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(CORES)))
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _: unlimited)


def put(root: Path, files: dict[str, str]) -> None:
    """Writes files of a system, by their paths."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


def test_a_machine_without_limits_is_used_whole(tmp_path: Path) -> None:
    assert available_cores(tmp_path) == CORES
    assert available_memory(tmp_path) == MEMORY
    assert default_memory(tmp_path) == MEMORY // 2


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", CORES),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("1000 100000", 1),
        ("99900000 100000", CORES),
        ("300000", CORES),
        ("x y", CORES),
        ("100000 0", CORES),
    ],
)
def test_cores_are_those_of_the_quota(tmp_path: Path, quota: str, cores: int) -> None:
    put(tmp_path, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": quota})
    assert available_cores(tmp_path) == cores


def test_the_smallest_limit_of_all_parent_groups_counts(tmp_path: Path) -> None:
    groups = "sys/fs/cgroup"
    put(
        tmp_path,
        {
            "proc/self/cgroup": "0::/kubepods/pod1/box",
            f"{groups}/kubepods/cpu.max": "max 100000",
            f"{groups}/kubepods/memory.max": str(8 << 30),
            f"{groups}/kubepods/pod1/cpu.max": "300000 100000",
            f"{groups}/kubepods/pod1/memory.max": str(2 << 30),
            f"{groups}/kubepods/pod1/box/cpu.max": "800000 100000",
            f"{groups}/kubepods/pod1/box/memory.max": "max",
            f"{groups}/other/memory.max": "4096",
        },
    )
    assert available_cores(tmp_path) == 3
    assert available_memory(tmp_path) == 2 << 30
    assert default_memory(tmp_path) == 1 << 30


@pytest.mark.parametrize("own", ["/docker/4f1c", "/"])
def test_groups_of_version_1_are_read_also_if_the_path_is_that_of_the_host(
    tmp_path: Path, own: str
) -> None:
    lines = (f"4:memory:{own}", f"3:cpu,cpuacct:{own}", "2:pids:/", "0::/", "odd line")
    put(
        tmp_path,
        {
            "proc/self/cgroup": "\n".join(lines),
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": str(3 << 30),
        },
    )
    assert available_cores(tmp_path) == 3
    assert available_memory(tmp_path) == 3 << 30


def test_unlimited_groups_of_version_1_have_no_effect(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "proc/self/cgroup": "2:memory:/\n1:cpu:/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    assert available_cores(tmp_path) == CORES
    assert available_memory(tmp_path) == MEMORY


@pytest.mark.parametrize("version", [1, 2])
def test_the_end_of_the_path_may_be_all_that_a_container_sees(tmp_path: Path, version: int) -> None:
    """The path is that of the host, and the root that is visible is a group in the path."""
    own = "/kubepods/pod1/box/workers"
    limits = {
        "workers": {"cpu": "800000", "memory": 5 << 30},
        "other": {"cpu": "100000", "memory": 1 << 30},
        "": {"cpu": "300000", "memory": 6 << 30},
    }
    files = {"proc/self/cgroup": f"0::{own}" if version == 2 else f"2:memory:{own}\n1:cpu:{own}"}
    for group, limit in limits.items():
        if version == 2:
            files[f"sys/fs/cgroup/{group}/cpu.max"] = f"{limit['cpu']} 100000"
            files[f"sys/fs/cgroup/{group}/memory.max"] = str(limit["memory"])
        else:
            files[f"sys/fs/cgroup/cpu/{group}/cpu.cfs_quota_us"] = str(limit["cpu"])
            files[f"sys/fs/cgroup/cpu/{group}/cpu.cfs_period_us"] = "100000"
            memory = f"sys/fs/cgroup/memory/{group}/memory.limit_in_bytes"
            files[memory] = str(limit["memory"])
    put(tmp_path, files)
    assert available_cores(tmp_path) == 3
    assert available_memory(tmp_path) == 5 << 30


def test_limits_of_groups_that_a_container_does_not_see_are_read(tmp_path: Path) -> None:
    """Those of version 1 are in the statistics of its own group."""
    memory = "sys/fs/cgroup/memory"
    put(
        tmp_path,
        {
            "proc/self/cgroup": "2:memory:/pod/box",
            f"{memory}/memory.limit_in_bytes": "9223372036854771712",
            f"{memory}/memory.stat": f"cache 4096\nhierarchical_memory_limit {3 << 30}\nrss 1",
        },
    )
    assert available_memory(tmp_path) == 3 << 30


def test_memory_above_which_processes_are_slowed_down_is_not_used(tmp_path: Path) -> None:
    groups = "sys/fs/cgroup/box"
    limits = {f"{groups}/memory.max": "max", f"{groups}/memory.high": str(2 << 30)}
    put(tmp_path, {"proc/self/cgroup": "0::/box", **limits})
    assert available_memory(tmp_path) == 2 << 30


def test_limits_of_the_process_bound_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {resource.RLIMIT_AS: (6 << 30, -1), resource.RLIMIT_DATA: (5 << 30, -1)}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    assert available_memory(tmp_path) == 5 << 30


def test_cores_are_those_that_the_process_may_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    put(tmp_path, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "800000 100000"})
    assert available_cores(tmp_path) == 2


def test_the_default_memory_is_enough_for_a_run(tmp_path: Path) -> None:
    put(tmp_path, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": str(600 << 20)})
    assert default_memory(tmp_path) == LEAST_MEMORY
    RunOptions(memory=default_memory(tmp_path))


def test_the_largest_document_does_not_depend_on_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for size in (LEAST_MEMORY, 1 << 30, 1 << 40):
        monkeypatch.setattr("nearkin.runtime.sizes.default_memory", lambda size=size: size)
        bounds = (parse_memory("auto"), memory_of({}), RunOptions(memory=memory_of({})).memory)
        for memory in bounds:
            assert memory == size
            assert isinstance(memory, AutomaticMemory)
            assert Columns().with_memory(memory).document_limit == 125_000_000
    assert Columns().with_memory(parse_memory("1GB")).document_limit == 31_250_000
    with pytest.raises(UsageError, match="memory 'automatic' is not a size"):
        parse_memory("automatic")
