"""The cores that a run may use: cpuset, quota, hardware threads and affinity."""

import os

import pytest

from insitu.collectors.cores import parse_cpu_list, usable_cores

SIBLINGS = {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"}


@pytest.fixture
def machine(tmp_path):
    """A machine of four cores with two hardware threads each."""

    def make() -> str:
        for cpu, siblings in SIBLINGS.items():
            topology = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
            topology.mkdir(parents=True)
            (topology / "thread_siblings_list").write_text(siblings + "\n")
        return str(tmp_path)

    return make


def write(root: str, file: str, text: str) -> None:
    path = os.path.join(root, file)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as stream:
        stream.write(text)


def test_hardware_threads_of_a_core_count_once(machine):
    root = machine()
    write(root, "proc/self/cgroup", "0::/job\n")
    write(root, "sys/fs/cgroup/job/cpuset.cpus.effective", "0-7\n")

    assert usable_cores(root=root) == 4


@pytest.mark.parametrize(
    ("cgroup", "file", "text", "expected"),
    [
        ("0::/job\n", "sys/fs/cgroup/job/cpuset.cpus.effective", "1-2\n", 2),
        ("0::/job/step\n", "sys/fs/cgroup/job/cpuset.cpus.effective", "3\n", 1),
        ("3:cpuset:/job\n", "sys/fs/cgroup/cpuset/job/cpuset.cpus", "0,1,2\n", 3),
        ("0::/on/the/host\n", "sys/fs/cgroup/cpuset.cpus.effective", "0-1\n", 2),
    ],
    ids=["version 2", "of the parent", "version 1", "in a container"],
)
def test_a_cpuset_limits_the_cores(machine, cgroup, file, text, expected):
    root = machine()
    write(root, "proc/self/cgroup", cgroup)
    write(root, file, text)

    assert usable_cores(root=root) == expected


@pytest.mark.parametrize(
    ("quota", "expected"), [("150000 100000\n", 2), ("max 100000\n", 4), ("", 4), ("nonsense", 4)]
)
def test_a_quota_limits_the_cores(machine, quota, expected):
    root = machine()
    write(root, "proc/self/cgroup", "0::/job\n")
    write(root, "sys/fs/cgroup/job/cpuset.cpus.effective", "0-7\n")
    write(root, "sys/fs/cgroup/job/cpu.max", quota)

    assert usable_cores(root=root) == expected


def test_the_quota_of_version_1_limits_the_cores(machine):
    root = machine()
    write(root, "proc/self/cgroup", "4:cpuset:/\n5:cpu,cpuacct:/job\n")
    write(root, "sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-7\n")
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n")
    write(root, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n")

    assert usable_cores(root=root) == 1


def test_the_affinity_of_all_ranks_limits_the_cores():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores([os.getpid()]) == 1
    finally:
        os.sched_setaffinity(0, before)


def test_ranks_that_are_gone_say_nothing_about_the_cores():
    assert usable_cores([2**22 + 1]) == usable_cores()


@pytest.mark.parametrize(("text", "cpus"), [("0-2,7\n", {0, 1, 2, 7}), ("", set()), ("5", {5})])
def test_lists_of_processors_are_parsed(text, cpus):
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("sys/fs/cgroup/unified/job", 1),  # version 2 beside version 1
        ("sys/fs/cgroup/unified", 1),
        ("sys/fs/cgroup/cpu/job", 4),
        ("sys/fs/cgroup/job/step", 4),  # of other processes
    ],
)
def test_limits_are_read_where_the_unified_hierarchy_is_mounted(machine, folder, expected):
    root = machine()
    write(root, "proc/self/cgroup", "5:name=systemd:/x\n0::/job\n")
    write(root, "sys/fs/cgroup/cpuset.cpus.effective", "0-7\n")
    write(root, f"{folder}/cpu.max", "100000 100000\n")

    assert usable_cores(root=root) == expected


@pytest.mark.parametrize(
    ("own", "parent", "expected"),
    [("max", "200000", 2), ("100000", "max", 1), ("300000", "200000", 2), ("200000", "300000", 2)],
)
def test_the_smallest_quota_of_a_group_and_its_parents_limits_the_cores(
    machine, own, parent, expected
):
    root = machine()
    write(root, "proc/self/cgroup", "0::/job/step\n")
    write(root, "sys/fs/cgroup/cpuset.cpus.effective", "0-7\n")
    write(root, "sys/fs/cgroup/job/cpu.max", f"{parent} 100000\n")
    write(root, "sys/fs/cgroup/job/step/cpu.max", f"{own} 100000\n")

    assert usable_cores(root=root) == expected


@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [("200000", "100000", 2), ("200001", "100000", 3), ("-1", "100000", 4), ("1", "0", 4)],
)
def test_a_started_core_counts_and_no_limit_is_none(machine, quota, period, expected):
    root = machine()
    write(root, "proc/self/cgroup", "4:cpuset:/\n5:cpu:/\n")
    write(root, "sys/fs/cgroup/cpuset/cpuset.cpus", "0-7\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota)
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", period)

    assert usable_cores(root=root) == expected


def test_the_nearest_cpuset_counts_and_the_effective_one_before_the_requested(machine):
    root = machine()
    write(root, "proc/self/cgroup", "3:cpuset:/job/step\n")
    write(root, "sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n")
    write(root, "sys/fs/cgroup/cpuset/job/cpuset.cpus", "0-2\n")
    write(root, "sys/fs/cgroup/cpuset/job/step/cpuset.cpus", "\n")
    assert usable_cores(root=root) == 3

    write(root, "sys/fs/cgroup/cpuset/job/cpuset.effective_cpus", "0-1\n")
    assert usable_cores(root=root) == 2


def test_without_topology_each_processor_is_a_core(tmp_path):
    write(str(tmp_path), "proc/self/cgroup", "0::/\n")
    write(str(tmp_path), "sys/fs/cgroup/cpuset.cpus.effective", "0-4,7\n")

    assert usable_cores(root=str(tmp_path)) == 6


def test_groups_with_names_in_any_encoding_are_no_error(machine):
    root = machine()
    write(root, "proc/self/cgroup", "")
    with open(os.path.join(root, "proc/self/cgroup"), "wb") as stream:
        stream.write(b"1:name=\xff:/\xfe\n0::/\n")
    write(root, "sys/fs/cgroup/cpuset.cpus.effective", "1\n")

    assert usable_cores(root=root) == 1
