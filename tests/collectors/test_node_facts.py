"""The facts of a node, read from recorded trees of /proc and /sys."""

from pathlib import Path

from insitu.collectors.node_facts import read_node_facts

CPUINFO = """processor\t: 0
model name\t: Some   CPU @ 2.10GHz
cpu MHz\t\t: 1800.123

processor\t: 1
model name\t: Some   CPU @ 2.10GHz
cpu MHz\t\t: 1900.456
"""


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_all_facts_of_a_recorded_node(tmp_path: Path):
    root = write(
        tmp_path,
        {
            "proc/cpuinfo": CPUINFO,
            "proc/meminfo": "MemTotal:       16384 kB\nMemFree: 1 kB\n",
            "proc/loadavg": "0.52 0.58 0.59 1/467 12345\n",
            "sys/devices/system/node/node0/cpulist": "0",
            "sys/devices/system/node/node1/cpulist": "1",
            "sys/devices/system/node/possible": "0-1",
            "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3700000\n",
        },
    )

    assert read_node_facts(root) == {
        "processor": "Some CPU @ 2.10GHz",
        "processors": 2,
        "numa_nodes": 2,
        "mhz": 3700,
        "memory": 16 << 20,
        "load": 0.52,
    }


def test_without_frequency_scaling_the_current_frequency_is_taken(tmp_path: Path):
    assert read_node_facts(write(tmp_path, {"proc/cpuinfo": CPUINFO}))["mhz"] == 1800


def test_unknown_facts_are_absent(tmp_path: Path):
    assert read_node_facts(str(tmp_path)) == {}
