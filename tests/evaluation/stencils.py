"""Behaviour classes of two real programs at p = 4, 8, 9, 16, 27, 32, 64 under mpiexec.

    python tests/evaluation/stencils.py [--ranks 4 8 9 16 27 32 64] [--keep DIRECTORY]

A plate and a block with costly boundary work (examples/stencil2d.py and stencil3d.py), tiny, so
that 64 ranks run on any machine. For every call path whose counts differ between ranks it is asked
whether the classes are, in every run, the ranks with equally many walls, and whether a class has
the same name in all runs; and whether the finding about the walls is there.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.modeling.classes.domain import dims_create
from insitu.modeling.classes.sizes import size_laws
from insitu.modeling.pipeline import remodel

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = (("stencil2d.py", 2, "--rim"), ("stencil3d.py", 3, "--surface"))
METRICS = ("visits", "bytes_sent", "bytes_received", "time")


def walls(p, axes):
    """How many walls each rank owns."""
    sides = dims_create(p, axes)
    at = np.unravel_index(np.arange(p), sides)
    return sum((x == 0) * 1 + (x == n - 1) for x, n in zip(at, sides, strict=True))


def measure(campaign, program, option, ranks):
    for p in ranks:
        command = [sys.executable, "-m", "insitu.run", "--quiet", "--campaign", str(campaign)]
        command += ["-n", str(p), "--", str(ROOT / "examples" / program), option]
        command += ["--cells", "4", "--steps", "5"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{program} at p = {p}: {done.stderr[-2000:]}")


def is_right(clusters, axes):
    """Whether the classes of a call path in a run are the ranks with equally many walls."""
    there = clusters.labels >= 0
    pairs = zip(
        clusters.labels[there].tolist(), walls(clusters.run.size, axes)[there].tolist(), strict=True
    )
    found = set(pairs)
    return len(found) == len({a for a, _ in found}) == len({b for _, b in found})


def judge(campaign, program, axes, seconds):
    with open_store(str(campaign)) as store:
        experiment = load_experiment(store)
    found = remodel(experiment)
    step = f"{program}->main->step"
    rows = [clusters for clusters in found.clusters if str(clusters.callpath).startswith(step)]
    several = {(clusters.callpath, clusters.metric) for clusters in rows if len(clusters.names) > 1}
    print(f"\n{program}, {len(experiment.runs)} runs in {seconds:.0f} s")
    for metric in METRICS:
        of = [
            clusters
            for clusters in rows
            if (clusters.callpath, clusters.metric) in several and clusters.metric == metric
        ]
        of = [clusters for clusters in of if not clusters.callpath.name.startswith("boundary_")]
        right = sum(is_right(clusters, axes) for clusters in of)
        print(f"  {metric:15}{right} of {len(of)} right (call path in a run)")
        for clusters in of:
            if not is_right(clusters, axes):
                print(
                    f"    wrong: {clusters.callpath} at p = {clusters.run.size}: {clusters.names}"
                )
    names = {}
    for clusters in rows:
        if clusters.callpath.name == "flux" and clusters.metric == "visits":
            for index, name in enumerate(clusters.names):
                owned = walls(clusters.run.size, axes)[clusters.labels == index]
                names.setdefault(name, set()).update(owned.tolist())
    print(f"  names and walls: {names}")
    for key, law in size_laws(found.clusters, ("p",)).items():
        if key.callpath.name == "flux" and key.metric == "visits":
            print(f"  ranks of class {key.behaviour}: {law}")
    for model in found.models:
        if model.key.callpath.name == "flux" and model.key.metric == "visits":
            print(f"  visits of flux, class {model.key.behaviour}: {model.model}")
    for finding in found.findings:
        if finding.code in ("classes-diverge", "ranks-crowded", "classes-matched"):
            print(f"  {finding.code}: {finding.text}")


def main() -> None:
    """Measure and judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8, 9, 16, 27, 32, 64])
    parser.add_argument("--keep", help="a directory for the campaigns")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.keep or scratch)
        for program, axes, option in PROGRAMS:
            campaign = folder / f"{program}.insitu"
            start = time.perf_counter()
            if not campaign.exists():
                measure(campaign, program, option, options.ranks)
            judge(campaign, program, axes, time.perf_counter() - start)


if __name__ == "__main__":
    main()
