"""The processor cores that the ranks of a run may use on this node.

Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpusets.rst of Linux. Two
hardware threads of a core count once, because ranks on both slow each other down.
"""

import math
import os
from collections.abc import Collection

CPU_FOLDER = "sys/devices/system/cpu"
CGROUP_FOLDER = "sys/fs/cgroup"


def usable_cores(pids: Collection[int] = (), root: str = "/") -> int:
    """The number of cores that processes of this node may use, at least 1.

    The cpuset and the quota of the control group limit them, and so does the affinity of the
    processes. A container or a batch job may allow far fewer cores than the machine has.

    Args:
        pids: processes whose affinities together limit the cores; none if these are not all ranks
            of the node, since launchers bind each rank to cores of its own.
        root: where /proc and /sys are.
    """
    groups = _control_groups(root)
    cpus = _allowed_cpus(groups) or set(range(os.cpu_count() or 1))
    bound = _affinity(pids)
    if bound & cpus:
        cpus &= bound

    count = len({_core_of(cpu, root) for cpu in cpus})
    quota = _quota(groups)
    if quota:
        count = min(count, math.ceil(quota))
    return max(count, 1)


def parse_cpu_list(text: str) -> set[int]:
    """The processors of a list of the kernel, such as `0-3,8`.

    Raises:
        ValueError: it is no such list.
    """
    cpus: set[int] = set()
    for item in text.strip().split(","):
        if item:
            first, _, last = item.partition("-")
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def _affinity(pids: Collection[int]) -> set[int]:
    """The processors on which any of these processes may run; empty if one of them is gone."""
    cpus: set[int] = set()
    for pid in pids:
        try:
            cpus |= os.sched_getaffinity(pid)
        except (OSError, OverflowError):  # gone, or the number is damaged
            return set()
    return cpus


def _allowed_cpus(groups: dict[str, list[str]]) -> set[int]:
    """The cpuset of this process, from its control groups; empty where there is none."""
    files = [os.path.join(folder, "cpuset.cpus.effective") for folder in groups.get("", [])]
    for folder in groups.get("cpuset", []):
        files.append(os.path.join(folder, "cpuset.effective_cpus"))
        files.append(os.path.join(folder, "cpuset.cpus"))

    for file in files:
        try:
            cpus = parse_cpu_list(_read(file))
        except ValueError:
            continue
        if cpus:
            return cpus
    return set()


def _quota(groups: dict[str, list[str]]) -> float:
    """How many processors' time the control groups may use at a time; 0 without a limit."""
    limits = []
    for folder in groups.get("", []):
        limits.append(_ratio(*(_read(os.path.join(folder, "cpu.max")).split() or [""])[:2]))
    for folder in groups.get("cpu", []):
        used = _read(os.path.join(folder, "cpu.cfs_quota_us"))
        limits.append(_ratio(used, _read(os.path.join(folder, "cpu.cfs_period_us"))))
    return min((limit for limit in limits if limit > 0), default=0.0)


def _ratio(quota: str, period: str = "") -> float:
    """A quota in multiples of its period; 0 without a limit, which is `max` or -1."""
    try:
        return max(float(quota) / float(period), 0.0)
    except (ValueError, ZeroDivisionError):
        return 0.0


def _control_groups(root: str) -> dict[str, list[str]]:
    """The folders of the control groups of this process, each before its parents.

    By controller; "" for the unified hierarchy of version 2.
    """
    folders: dict[str, list[str]] = {}
    for line in _read(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in controllers.split(","):
            mounts = [os.path.join(root, CGROUP_FOLDER, controller)]
            if not controller:
                mounts.append(os.path.join(root, CGROUP_FOLDER, "unified"))
            parts = [name for name in path.split("/") if name]
            for mount in mounts:
                for end in range(len(parts), -1, -1):
                    folders.setdefault(controller, []).append(os.path.join(mount, *parts[:end]))
    return folders


def _core_of(cpu: int, root: str) -> str:
    """A name that hardware threads of one core share."""
    topology = os.path.join(root, CPU_FOLDER, f"cpu{cpu}", "topology")
    return _read(os.path.join(topology, "thread_siblings_list")).strip() or str(cpu)


def _read(file: str) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        with open(file, encoding="ascii", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
