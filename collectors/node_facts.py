"""What a node is: processor, NUMA nodes, frequency, memory, and the load when a run begins.

Sources: proc(5); Documentation/admin-guide/pm/cpufreq.rst and Documentation/ABI/stable/
sysfs-devices-node of Linux. A fact that this machine does not report is absent.
"""

import os
import re
from typing import Any

CPU_FOLDER = "sys/devices/system/cpu"
NODE_FOLDER = "sys/devices/system/node"
MAX_NAME = 80  # characters of the name of a processor


def read_node_facts(root: str = "/") -> dict[str, Any]:  # Any: JSON
    """The facts of this node.

    Args:
        root: where /proc and /sys are.

    Returns:
        `processor` (its name), `processors` (hardware threads), `numa_nodes`, `mhz` (the highest
        frequency of the first processor), `memory` (bytes), `load` (processes that ran or waited
        for a processor, over the last minute), each if it is known.
    """
    info = _read(root, "proc/cpuinfo")
    facts: dict[str, Any] = {}
    name = re.search(r"^model name\s*: (.*)$", info, re.MULTILINE)
    if name:
        facts["processor"] = " ".join(name[1].split())[:MAX_NAME]
    processors = len(re.findall(r"^processor\s*:", info, re.MULTILINE))
    if processors:
        facts["processors"] = processors

    numa_nodes = [entry for entry in _list(root, NODE_FOLDER) if re.fullmatch(r"node\d+", entry)]
    if numa_nodes:
        facts["numa_nodes"] = len(numa_nodes)
    mhz = _frequency_mhz(root, info)
    if mhz:
        facts["mhz"] = round(mhz)

    memory = re.search(r"^MemTotal:\s*(\d+) kB$", _read(root, "proc/meminfo"), re.MULTILINE)
    if memory:
        facts["memory"] = 1024 * int(memory[1])
    load = re.match(r"(\d+\.\d+) ", _read(root, "proc/loadavg"))
    if load:
        facts["load"] = float(load[1])
    return facts


def _frequency_mhz(root: str, info: str) -> float:
    """The highest frequency of the first processor; 0.0 if it is not known."""
    highest = _read(root, f"{CPU_FOLDER}/cpu0/cpufreq/cpuinfo_max_freq").strip()
    if highest.isdigit():
        return int(highest) / 1000
    current = re.search(r"^cpu MHz\s*: ([\d.]+)$", info, re.MULTILINE)
    return float(current[1]) if current else 0.0


def _read(root: str, file: str) -> str:
    try:
        with open(os.path.join(root, file), encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _list(root: str, folder: str) -> list[str]:
    try:
        return os.listdir(os.path.join(root, folder))
    except OSError:
        return []
