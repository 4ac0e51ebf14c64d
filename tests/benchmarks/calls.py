"""What one Python call and its return cost more when timed, beside other profilers.

    python tests/benchmarks/calls.py [--pythons PYTHON...] [--rounds 7] [--tools insitu ...]

Each round runs every tool once in a process of its own, in random order and with the layout of
memory shifted at random; a process times many short blocks of each workload in CPU time and keeps
the fastest. What a tool adds is its block over that of the bare process of the same round; medians
over the rounds. VizTracer, pyinstrument and the hook of Score-P's bindings are shown where the
interpreter has them, as in an environment made by `python3.12 -m venv /tmp/peers &&
/tmp/peers/bin/pip install viztracer pyinstrument`; `scorep` wants an installation of Score-P.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE))

from insitu.collectors import library  # noqa: E402
from insitu.run.environment import rank_environment  # noqa: E402
from insitu.run.options import parse  # noqa: E402

WORK = """
import gc, json, sys, time

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

class Cell:
    def __init__(self): self.value = 1
    def get(self): return self.value
    def add(self, n): self.value = self.get() + n - n

def methods(n):
    cell = Cell()
    for i in range(n): cell.add(i)

def loop(n):
    total = 0
    for i in range(n): total += i * i % 7
    return total

def tiny(): pass

def calls(n):
    for i in range(n): tiny()

TOOL = sys.argv[1]
WORKLOADS = {
    "fib": (lambda: fib(16), 3193),
    "methods": (lambda: methods(1500), 3000),
    "loop": (lambda: loop(3000), 3000),
    "tiny": (lambda: calls(3000), 3000),
}
if TOOL == "cProfile":
    import cProfile
    tool = cProfile.Profile()
    on, off = tool.enable, tool.disable
elif TOOL == "viztracer":
    from viztracer import VizTracer
    tool = VizTracer(ignore_c_function=True, tracer_entries=100_000, verbose=0)
    on, off = tool.start, tool.stop
elif TOOL == "pyinstrument":
    from pyinstrument import Profiler
    tool = Profiler()
    on, off = tool.start, tool.stop
elif TOOL == "scorep":
    from scorep._bindings import CInstrumenter
    tool = CInstrumenter(interface="Profile")
    on, off = tool._enable_instrumenter, tool._disable_instrumenter
else:
    on = off = lambda: None
gc.disable()
result = {}
clock = time.process_time_ns
for name, (work, count) in WORKLOADS.items():
    best = 1e18
    on()
    warm = time.monotonic() + (0.7 if TOOL == "throttled" else 0.02)
    while time.monotonic() < warm: work()
    for _ in range(int(sys.argv[2])):
        began = clock()
        work()
        best = min(best, clock() - began)
    off()
    result[name] = best / count
print(json.dumps(result))
"""
TOOLS = {
    "insitu": ("--budget", "off"),
    "filtered": ("--budget", "off", "--skip", "tiny", "--skip", "fib", "--skip", "Cell.*"),
    "throttled": ("--budget", "1%"),
    "cProfile": None,
    "viztracer": None,
    "pyinstrument": None,
    "scorep": None,
}


def run(python: str, tool: str, blocks: int, folder: str) -> dict[str, float] | None:
    """Nanoseconds per call of each workload under one tool, None where it is not installed."""
    script = Path(folder, "work.py")
    script.write_text(WORK)
    environment = {**os.environ, "LAYOUT": "x" * random.randrange(8192)}
    if TOOLS.get(tool) is not None:
        options = parse(["-q", *TOOLS[tool], str(script)])
        environment |= rank_environment(options, "0" * 32, folder) | {
            "INSITU_TABLES": folder,
            "INSITU_AGENT": "off",
            "INSITU_SINGLE": "1",
            "INSITU_LIBRARY": library.find(),
        }
    command = [python, str(script), tool, str(blocks)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        if "No module named" in done.stderr:
            return None
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(python: str, tools: list[str], rounds: int, blocks: int) -> None:
    """Print what each tool adds to a call, and how that compares with the peers."""
    added: dict[str, dict[str, list[float]]] = {tool: {} for tool in tools}
    bare: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            took = {}
            for tool in random.sample(["bare", *tools], len(tools) + 1):
                found = run(python, tool, blocks, folder)
                if found is not None:
                    took[tool] = found
            for name, nanoseconds in took["bare"].items():
                bare.setdefault(name, []).append(nanoseconds)
                for tool in tools:
                    if tool in took:
                        more = took[tool][name] - nanoseconds
                        added[tool].setdefault(name, []).append(more)
    medians = {
        tool: {name: statistics.median(values) for name, values in found.items()}
        for tool, found in added.items()
        if found
    }
    base = {name: statistics.median(values) for name, values in bare.items()}
    print(f"{'ns per call':14s}" + "".join(f"{name:>10s}" for name in base))
    print(f"{'bare':14s}" + "".join(f"{value:10.1f}" for value in base.values()))
    for tool, found in medians.items():
        print(f"{'+ ' + tool:14s}" + "".join(f"{found[name]:10.1f}" for name in base))
    print(
        f"{'loop, insitu over bare':24s} "
        f"{(base['loop'] + medians['insitu']['loop']) / base['loop']:6.3f}"
    )
    for peer in ("cProfile", "viztracer", "pyinstrument", "scorep"):
        if peer in medians:
            ratios = (medians["insitu"][n] / medians[peer][n] for n in ("fib", "methods"))
            fib, methods = ratios
            print(f"{'insitu / ' + peer:24s} {fib:6.2f} fib {methods:6.2f} methods")


def main() -> None:
    """Compare on every interpreter that is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="+", default=[sys.executable])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--blocks", type=int, default=200)
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=list(TOOLS))
    options = parser.parse_args()
    for python in options.pythons:
        version = subprocess.check_output([python, "-V"], text=True).strip()
        print(f"\n{version}, {options.rounds} rounds", flush=True)
        compare(python, options.tools, options.rounds, options.blocks)


if __name__ == "__main__":
    main()
