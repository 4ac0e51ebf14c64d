"""`insitu advise`: what to run next."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import click
import numpy as np

from insitu.campaign.config import load_table
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.cli.output import campaign_argument, json_option, print_json
from insitu.cli.predict import coordinate
from insitu.design.advise import (
    FIRST_RUNS,
    candidates_of,
    first_runs,
    laws_of,
    next_point,
    uncertainty,
)
from insitu.design.dependencies import Dependency, Nest, load_structure
from insitu.design.factorial import Levels, Point
from insitu.design.levels import parse_levels
from insitu.entities import RANKS
from insitu.errors import UsageError
from insitu.measurement import Experiment, FloatArray
from insitu.units import percent, quantity

METRIC = "time_exclusive"
CALLPATHS = 40  # the dearest; the others do not decide
GOAL = 0.05


@dataclass(frozen=True, slots=True)
class Known:
    """What was measured: (n_points, n_parameters), and (n_callpaths, n_points) in seconds.

    noise: relative, of a value, as far as repetitions tell it; 0 where there are none.
    """

    names: tuple[str, ...]
    points: FloatArray
    callpaths: tuple[str, ...]
    values: FloatArray
    noise: float


@click.command(name="advise")
@campaign_argument
@click.option(
    "--at", "at", required=True, metavar="NAME=VALUE,...", help="What is to be predicted."
)
@click.option(
    "--levels",
    "levels",
    multiple=True,
    metavar="NAME=VALUES",
    help="What may be run, as in n=32,64 or p=8..128:5; else [levels] of campaign.toml.",
)
@click.option(
    "--dependencies", type=click.Path(), help="What `insitu detect` found; tells much for little."
)
@click.option(
    "--goal",
    type=click.FloatRange(min=0.001),
    default=GOAL,
    show_default=True,
    help="Relative uncertainty of the prediction that is enough.",
)
@json_option
def command(
    *,
    campaign: str,
    at: str,
    levels: tuple[str, ...],
    dependencies: str | None,
    goal: float,
    is_json: bool,
) -> None:
    """Say which run tells most per core-hour about the run time at a scale not measured.

    Begins with runs that differ in everything; then it is the run that lowers the uncertainty of
    the prediction most for its cost, until that is below the goal.
    """
    chosen = dict(map(parse_levels, levels)) or _levels(campaign)
    names = tuple(chosen)
    with open_store(campaign, create=True) as store:
        experiment = load_experiment(store)
    known = known_runs(experiment, names)
    target = np.array([coordinate(at, names)])
    start = [one for one in first_runs(chosen) if not _is_in(one, known.points)]
    if len(known.points) < FIRST_RUNS and start:
        _say(start[0], None, goal, is_json=is_json)
        return
    found = _dependencies(known, dependencies)
    laws = [
        laws_of(known.points, row, names, one, seed=seed)
        for seed, (row, one) in enumerate(zip(known.values, found, strict=True))
    ]
    doubt = uncertainty(laws, target)
    taken = [Point(tuple(zip(names, map(float, row), strict=True))) for row in known.points]
    candidates = candidates_of(chosen, taken)

    def cost(point: Point) -> float:
        where = np.array([[value for _, value in point.values]])
        seconds = float(np.mean(sum(law.at(where) for law in laws)))
        return max(seconds, 1e-9) * dict(point.values).get(RANKS, 1.0)

    is_enough = doubt <= goal or not candidates
    best = None if is_enough else next_point(laws, candidates, target, cost)
    seconds = float(np.median(sum(law.at(target) for law in laws)))
    _say(best, (seconds, doubt), goal, is_json=is_json)


def _levels(campaign: str) -> Levels:
    data = load_table(os.path.abspath(campaign)).get("levels")
    if not isinstance(data, dict) or not data:
        raise UsageError("say what may be run: --levels p=8..128:5, or [levels] in campaign.toml")
    return dict(
        parse_levels(f"{name}={of if isinstance(of, str) else ','.join(map(str, of))}")
        for name, of in data.items()
    )


def known_runs(experiment: Experiment, names: Sequence[str]) -> Known:
    """The slowest rank's exclusive time of the dearest call paths, repetitions averaged."""
    sums: dict[tuple[float, ...], dict[str, list[float]]] = {}
    for key, table in experiment.runs:
        place = key.coordinate(names)
        if any(map(math.isnan, place)) or METRIC not in table.values:
            continue
        here = sums.setdefault(place, {})
        for path, row in zip(table.callpaths, table.values[METRIC], strict=True):
            if not np.all(np.isnan(row)):
                here.setdefault(str(path), []).append(float(np.nanmax(row)))
    points = sorted(sums)
    common = set.intersection(*(set(sums[place]) for place in points)) if points else set()
    dearest = sorted(common, key=lambda path: -max(np.mean(sums[p][path]) for p in points))
    callpaths = tuple(dearest[:CALLPATHS])
    values = [[np.mean(sums[place][path]) for place in points] for path in callpaths]
    repeated = [of for p in points for path in callpaths if len(of := sums[p][path]) > 1]
    scatter = [np.std(of, ddof=1) / max(fmean(of), 1e-300) / len(of) ** 0.5 for of in repeated]
    return Known(
        tuple(names),
        np.array(points, dtype=float).reshape(len(points), len(names)),
        callpaths,
        np.array(values, dtype=float).reshape(len(callpaths), len(points)),
        float(np.median(scatter)) if scatter else 0.0,
    )


def _dependencies(known: Known, file: str | None) -> list[Dependency]:
    """Of each call path; all parameters, each alone and all together, where nothing is known."""
    alone = tuple(Nest.of([name]) for name in known.names)
    anything = (*alone, Nest.of(known.names)) if len(alone) > 1 else alone
    if file is None:
        return [Dependency(path, anything) for path in known.callpaths]
    found = {one.callpath: one for one in load_structure(file).resolved()}
    return [found.get(path, Dependency(path, anything)) for path in known.callpaths]


def _is_in(point: Point, points: FloatArray) -> bool:
    row = np.array([value for _, value in point.values])
    return bool(np.any(np.all(points == row, axis=1))) if len(points) else False


def _say(
    best: Point | None, found: tuple[float, float] | None, goal: float, *, is_json: bool
) -> None:
    """The prediction with its relative uncertainty, where there is one, and what to run."""
    seconds, doubt = found or (None, None)
    if is_json:
        params = None if best is None else dict(best.values)
        row = {"params": params, "prediction": seconds, "uncertainty": doubt, "goal": goal}
        print_json([row])
        return
    if seconds is not None and doubt is not None:
        click.echo(
            f"{quantity(seconds, 's')} by the runs so far, uncertain by {percent(doubt)};"
            f" the goal is {percent(goal)}"
        )
    if best is not None:
        click.echo(f"run next: {best}")
    elif doubt is not None and doubt <= goal:
        click.echo("no further run is needed")
    else:
        click.echo("every configuration of --levels was run; give others")
