"""What an aggregator that is up, absent, stopped or killed changes for the program: nothing.

    python tests/benchmarks/unreachable.py [--rounds 5]

One rank steps 4,000 times (1 ms of work each); interleaved rounds of each case. Prints the CPU time
and the wall time of a step, median over rounds, and how long the process takes to end after its
last line. "off" measures without an agent and is what the others are compared with.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.listeners import Server
from tests.support.processes import HERE

CASES = ("off", "up", "absent", "stopped", "killed")
PROGRAM = """
import statistics, time

def work(n):
    total = 0
    for i in range(n):
        total += i
    return total

def step():
    return work(8000)

walls, began = [], time.process_time()
for _ in range(4000):
    start = time.perf_counter()
    step()
    walls.append(time.perf_counter() - start)
cpu = (time.process_time() - began) / len(walls)
walls.sort()
print(cpu, statistics.median(walls), walls[-40], time.time(), flush=True)
"""


def main() -> None:
    """Run the rounds and print a line for each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    found: dict[str, list[tuple[float, ...]]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory(prefix="insitu-unreachable-") as name:
        folder = Path(name)
        (folder / "app.py").write_text(PROGRAM)
        for number in range(rounds):
            for case in CASES:
                found[case].append(_round(folder, case, number))
    base = [statistics.median(column) for column in zip(*found["off"], strict=True)]
    for case, rows in found.items():
        cpu, wall, late, end = (statistics.median(column) for column in zip(*rows, strict=True))
        print(
            f"{case}: {1e6 * cpu:.0f} µs CPU a step ({cpu / base[0]:.3f} of off), wall"
            f" {1e6 * wall:.0f} µs, p99 {1e6 * late:.0f} µs; ends {1e3 * end:.0f} ms after its last"
            f" line ({1e3 * (end - base[3]):+.0f})"
        )


def _round(folder: Path, case: str, number: int) -> tuple[float, ...]:
    campaign = folder / f"{case}{number}.insitu"
    campaign.mkdir(0o700)
    server = Server(campaign).wait() if case in ("up", "stopped", "killed") else None
    if server is not None and case == "stopped":
        server.process.send_signal(signal.SIGSTOP)
    words = [sys.executable, "-m", "insitu.run", "--campaign", str(campaign), "--quiet"]
    words += ["--beat", "0.1", "--agent", "off" if case == "off" else "on", "app.py"]
    rank = {"PMI_RANK": "0", "PMI_SIZE": "1", "PMI_JOBID": f"{folder}{case}{number}"}
    more = {"PYTHONPATH": str(HERE), "INSITU_TABLES": str(folder)}
    process = subprocess.Popen(
        words, cwd=folder, env={**os.environ, **more, **rank}, stdout=subprocess.PIPE, text=True
    )
    if server is not None and case == "killed":
        time.sleep(1.5)
        server.kill()
    out, _ = process.communicate()
    ended = time.time()
    if server is not None:
        server.process.send_signal(signal.SIGCONT)
        server.kill()
    cpu, wall, late, last = map(float, out.split())
    return cpu, wall, late, ended - last


if __name__ == "__main__":
    main()
