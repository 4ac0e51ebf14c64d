"""The full factorial and the deduced design of real programs under mpiexec, measured both ways.

    python tests/evaluation/deduced.py [--programs sweep twogrid] [--checks 3] [--by-path]

`insitu detect` finds what depends on what at tiny sizes; each configuration of the full factorial
is then measured once, which those of the deduced design are part of, and both are modelled: the
full one as it is, both as well with dependencies.json in the campaign. The sum of what ranks do
(all call paths below main but MPI's: exclusive times, bytes allocated, visits) is predicted between
and beyond the levels, and compared with the median of some runs there: runs must see the same load,
or it is load that times compare; bytes and visits do not know it. Working sets stay within the
second-level cache: no design sees a step that is beyond its levels. Cost is core-seconds of the
program itself. Numbers of ranks stay at the cores of the machine; run it when the machine is calm:
the load is printed.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")
Point = dict[str, float]
N_PATHS = 3  # whose errors are printed per metric
METRICS = ("time_exclusive", "bytes_allocated", "visits")


@dataclass(frozen=True)
class Program:
    """A command, three tiny values and the levels of each parameter, points between and beyond."""

    words: str
    tiny: dict[str, str]
    levels: dict[str, Sequence[int]]
    between: Point
    beyond: Point


PROGRAMS = {
    "sweep": Program(
        "--zones 256 --dirsets {dirsets} --steps {steps}",
        {"p": "1,2,4", "dirsets": "2,4,6", "steps": "3,6,9"},
        {"p": (1, 2), "dirsets": (8, 16, 32, 64, 128), "steps": (20, 40, 80)},
        {"p": 2, "dirsets": 48, "steps": 60},
        {"p": 2, "dirsets": 256, "steps": 160},
    ),
    "twogrid": Program(
        "--vol {vol} --cubes {cubes} --cycles 250",
        {"p": "1,2,4", "vol": "48,96,144", "cubes": "8,12,16"},
        {
            "p": (1, 2),
            "vol": tuple(2**k for k in (10, 11, 12, 13, 14)),
            "cubes": tuple(2**k for k in (4, 5, 6, 7, 8)),
        },
        {"p": 2, "vol": 3 * 2**11, "cubes": 3 * 2**5},
        {"p": 2, "vol": 2**15, "cubes": 2**9},
    ),
}


def insitu(*words: str) -> list[dict]:
    """The rows that a command answers."""
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    answer = subprocess.run(
        [sys.executable, "-m", "insitu", *words], env=environment, capture_output=True, text=True
    )
    if answer.returncode:
        sys.exit(f"insitu {' '.join(words)}: {answer.stderr}")
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]


def measure(name: str, campaign: Path, at: Point) -> None:
    """One run, within the campaign."""
    program = PROGRAMS[name]
    given = [w for k, v in at.items() if k != "p" for w in ("--param", f"{k}={v:g}")]
    words = program.words.format(**{k: f"{v:g}" for k, v in at.items()}).split()
    launch = [str(MPIEXEC), "-n", f"{at['p']:g}", sys.executable, str(script(name)), *words]
    insitu("run", "--quiet", "--budget", "off", "--campaign", str(campaign), *given, "--", *launch)


def script(name: str) -> Path:
    return HERE / "examples" / f"{name}.py"


def computing(campaign: Path, metric: str) -> dict[tuple, list[dict[str, float]]]:
    """What ranks do by call path, their mean, of each run by point."""
    sys.path.insert(0, str(HERE))
    import numpy as np

    from insitu.campaign.store import open_store

    found: dict[tuple, list[dict[str, float]]] = {}
    with open_store(str(campaign)) as store:
        for run in store.runs():
            table = store.table(run.id)
            values = {
                str(path): float(np.nanmean(row))
                for path, row in zip(table.callpaths, table.values[metric], strict=True)
                if "->main->" in str(path)  # the start is no work of the loop
                and not path.name.startswith("MPI_")
                and not np.all(np.isnan(row))
            }
            found.setdefault(tuple(sorted(run.key.parameters)), []).append(values)
    return found


def key(at: Point) -> tuple:
    return tuple(sorted((name, float(value)) for name, value in at.items()))


def predicted(
    campaign: Path, at: Point, fixed: Point, paths: Iterable[str]
) -> dict[str, dict[str, float]]:
    """What models of these call paths predict at a point, by metric and path; classes are averaged.

    What was kept fixed acts linearly through the main loop.
    """
    scale = math.prod(at[name] / value for name, value in fixed.items())
    at = {name: value for name, value in at.items() if name not in fixed}
    where = ",".join(f"{name}={value:g}" for name, value in at.items())
    rows = insitu("predict", str(campaign), "--at", where, "--json")
    wanted = set(paths)
    found: dict[tuple[str, str], list[float]] = {}  # of each behaviour class
    for row in rows:
        if row["metric"] in METRICS and row["callpath"] in wanted:
            place = (row["metric"], row["callpath"])
            found.setdefault(place, []).append(scale * row["predictions"][0]["value"])
    return {
        metric: {path: statistics.fmean(of) for (own, path), of in found.items() if own == metric}
        for metric in METRICS
    }


def copy(source: Path, target: Path, points: Sequence[Point], dependencies: Path | None) -> None:
    """A campaign of some of the runs of another one, modelled."""
    from insitu.campaign.store import open_store

    wanted = {key(at) for at in points}
    with open_store(str(source)) as store, open_store(str(target), create=True) as chosen:
        for run in store.runs():
            if tuple(sorted(run.key.parameters)) in wanted:
                chosen.add_run(run, store.table(run.id))
    if dependencies is not None:
        (target / "dependencies.json").write_text(dependencies.read_text())
    insitu("refit", str(target), "--json")


def judge(name: str, checks: int, folder: Path, *, by_path: bool) -> None:
    program = PROGRAMS[name]
    tiny = [w for k, v in program.tiny.items() for w in ("--param", f"{k}={v}")]
    words = program.words.split()
    if name == "sweep":
        words[1] = "8"  # zones of the pilot runs
    else:
        words[-1] = "2"
    found = folder / "found.json"
    launch = [str(MPIEXEC), "-n", "{p}", sys.executable, str(script(name)), *words]
    insitu("detect", *tiny, "--json", "-o", str(found), "--", *launch)
    levels = [
        w for k, of in program.levels.items() for w in ("--levels", f"{k}={','.join(map(str, of))}")
    ]
    deduced = [r["params"] for r in insitu("design", str(found), *levels, "--json")]
    is_check = [r["check"] for r in insitu("design", str(found), *levels, "--json")]
    deduced = [at for at, check in zip(deduced, is_check, strict=True) if not check]
    fixed = {k: of[0] for k, of in program.levels.items() if k not in deduced[0]}
    deduced = [at | fixed for at in deduced]
    full = [
        r["params"] for r in insitu("design", str(found), *levels, "--method", "full", "--json")
    ]
    everything = folder / "everything.insitu"
    for at in full:
        measure(name, everything, at)
    held_out = folder / "held.insitu"
    for _ in range(checks):
        measure(name, held_out, program.between)
        measure(name, held_out, program.beyond)
    truth = {metric: computing(held_out, metric) for metric in METRICS}
    seconds = computing(everything, METRICS[0])

    def cost(points: Sequence[Point]) -> float:
        return sum(at["p"] * sum(seconds[key(at)][0].values()) for at in points)

    whole = cost(full)
    print(f"\n{name}: load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"{'design':24}{'runs':>6}{'core-s':>9}{'cost %':>8}", *METRICS, "between, beyond %")
    for title, points, told in (
        ("full factorial", full, None),
        ("full factorial, told", full, found),
        ("deduced, told", deduced, found),
        ("deduced, not told", deduced, None),
    ):
        campaign = folder / f"{title.replace(', ', '-').replace(' ', '-')}.insitu"
        copy(everything, campaign, points, told)
        errors: dict[str, list[str]] = {metric: [] for metric in METRICS}
        for at in (program.between, program.beyond):
            kept = {} if points is full else fixed
            paths = set.intersection(*(set(run) for run in truth[METRICS[0]][key(at)]))
            models = predicted(campaign, at, kept, paths)
            for metric, of in truth.items():
                real = statistics.median(
                    sum(run.get(path, 0.0) for path in paths) for run in of[key(at)]
                )
                total = sum(models[metric].values())
                errors[metric].append(f"{100 * abs(total / real - 1):.1f}")
            if by_path:
                measured = {metric: of[key(at)] for metric, of in truth.items()}
                print_largest_errors(at, models, measured, paths)
        spent = cost(points)
        row = f"{len(points):6}{spent:9.1f}{100 * spent / whole:8.1f}"
        shown = "   ".join(f"{metric} {', '.join(of)}" for metric, of in errors.items())
        print(f"{title:24}{row}   {shown}", flush=True)


def print_largest_errors(
    at: Point,
    models: dict[str, dict[str, float]],
    measured: dict[str, list[dict[str, float]]],
    paths: Iterable[str],
) -> None:
    """Print the call paths whose predictions miss by most, per metric, in percent of the sum."""
    for metric, of in models.items():
        real = {
            path: statistics.median(run.get(path, 0.0) for run in measured[metric])
            for path in paths
        }
        missed = {path: of.get(path, 0.0) - value for path, value in real.items()}
        for path in sorted(missed, key=lambda path: -abs(missed[path]))[:N_PATHS]:
            share = 100 * missed[path] / sum(real.values())
            values = f"measured {real[path]:.4g}, predicted {of.get(path, 0.0):.4g}"
            print(f"  {metric} at {at}: {share:+.1f} % from {path}: {values}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--checks", type=int, default=3, help="runs at each point held out")
    parser.add_argument("--by-path", action="store_true", help="and where the errors come from")
    options = parser.parse_args()
    for name in options.programs:
        with tempfile.TemporaryDirectory(prefix="insitu-deduced-") as folder:
            judge(name, options.checks, Path(folder), by_path=options.by_path)


if __name__ == "__main__":
    main()
