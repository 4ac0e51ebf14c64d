"""What reading facts about processes costs: our own lines for /proc beside psutil.

    python tests/benchmarks/process_facts.py [--count 2000]

Printed are microseconds of CPU per call, and the milliseconds and MiB that `import psutil` takes.
The agent and `insitu run` read these facts while a program starts, ends or is measured, so they
must not pay for an import.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

IMPORT = """
import os, time

def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)

begun, before = time.process_time(), resident_mib()
import psutil
print(1000 * (time.process_time() - begun), resident_mib() - before)
"""


def cost_us(work: Callable[[], object], count: int) -> float:
    """Microseconds of CPU per call."""
    work()
    begun = time.process_time()
    for _ in range(count):
        work()
    return 1e6 * (time.process_time() - begun) / count


def main() -> None:
    """Print a line per fact."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    count = parser.parse_args().count

    import psutil

    from insitu.campaign.reachability import is_process, is_stopped
    from insitu.collectors.node_facts import read_node_facts
    from insitu.collectors.smaps import Memory, is_alive, probe

    pid = os.getpid()
    process = psutil.Process(pid)
    now = time.time()
    pairs = {
        "is it stopped": (lambda: is_stopped(pid), lambda: psutil.Process(pid).status()),
        "did it begin before": (
            lambda: is_process(pid, now),
            lambda: psutil.Process(pid).create_time() < now,
        ),
        "RSS, peak, PSS, private": (
            lambda: probe(Memory(), pid, now_s=0.0),
            process.memory_full_info,  # without the peak, which psutil does not have on Linux
        ),
        "CPU time of this process": (
            lambda: resource.getrusage(resource.RUSAGE_SELF),
            process.cpu_times,
        ),
        "is it alive, by its start": (lambda: is_alive(pid, 1), process.is_running),
        "facts of the node": (  # without the name of the processor and NUMA nodes
            read_node_facts,
            lambda: (
                psutil.cpu_count(),
                psutil.cpu_freq(),
                psutil.virtual_memory(),
                psutil.getloadavg(),
            ),
        ),
    }
    for name, (own, with_psutil) in pairs.items():
        print(f"{name:26} {cost_us(own, count):8.1f} {cost_us(with_psutil, count):8.1f} µs")

    command = [sys.executable, "-c", IMPORT]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    milliseconds, mebibytes = map(float, out.split())
    print(f"import psutil              {milliseconds:.1f} ms, {mebibytes:.1f} MiB")


if __name__ == "__main__":
    main()
