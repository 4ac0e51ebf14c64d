"""`insitu advise`: what to run next."""

import math
import os
from collections.abc import Sequence

import click

from insitu.analysis.callpaths import last_frames
from insitu.analysis.summary import TARGET_FACTOR
from insitu.campaign.config import find_dependencies_file, load_settings
from insitu.campaign.load import load_experiment
from insitu.campaign.schema import FILE
from insitu.campaign.store import open_store
from insitu.cli.output import campaign_argument, json_option, print_json
from insitu.cli.predict import coordinate
from insitu.design.campaign_plan import GOAL
from insitu.design.dependencies import Dependency, at_callpaths
from insitu.design.dependency_file import load_structure
from insitu.design.factorial import Levels
from insitu.design.levels import parse_levels
from insitu.design.measured_runs import MeasuredRuns, collect_measured_runs
from insitu.design.proposals import Proposal, Proposals, default_levels, propose_runs
from insitu.entities import RANKS
from insitu.errors import UsageError
from insitu.modeling.measurement import Experiment
from insitu.units import percent, quantity

NAME_WIDTH = 60
FEW = 3  # runs that a report proposes


@click.command(name="advise")
@campaign_argument
@click.option(
    "--at",
    "at",
    metavar="NAME=VALUE,...",
    help="What is to be predicted; 16 times the largest scale if not said.",
)
@click.option(
    "--levels",
    "levels",
    multiple=True,
    metavar="NAME=VALUES",
    help="What may be run, as in n=32,64 or p=8..128:5; else [levels] of campaign.toml, else what "
    "was run and up to four times as much.",
)
@click.option(
    "--dependencies",
    type=click.Path(),
    help="What `insitu detect` found, if not in CAMPAIGN; tells much for little.",
)
@click.option(
    "--goal",
    type=click.FloatRange(min=0.001),
    default=GOAL,
    show_default=True,
    help="Relative uncertainty of the prediction that is enough.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 50),
    default=1,
    show_default=True,
    help="How many runs, each chosen as if those before it had been made.",
)
@json_option
def command(
    *,
    campaign: str,
    at: str | None,
    levels: tuple[str, ...],
    dependencies: str | None,
    goal: float,
    count: int,
    is_json: bool,
) -> None:
    """Say which run tells most per core-hour about the run time at a scale not measured.

    Begins with runs that differ in everything; then it is the run that lowers the uncertainty of
    the prediction most for its cost, until that is below the goal.
    """
    given = dict(map(parse_levels, levels)) or kept_levels(campaign)
    experiment = measured_in(campaign, is_planning=bool(given) and at is not None)
    known = collect_measured_runs(experiment, tuple(given) or experiment.parameters)
    target = farther(known) if at is None else coordinate(at, known.names)
    found = propose_runs(
        known,
        target,
        given or default_levels(known, target),
        dependencies=dependencies_in(
            dependencies or find_dependencies_file(os.path.abspath(campaign)), known.callpaths
        ),
        goal=goal,
        count=count,
    )
    if is_json:
        print_json([_row(found, one) for one in found.runs] or [_row(found, None)])
    else:
        _print(found)


def measured_in(campaign: str, *, is_planning: bool) -> Experiment:
    """The runs of a campaign; none of one that is not there yet, for who plans its first ones.

    Raises:
        UsageError: there is no such campaign, and nothing is planned.
        CampaignError: it cannot be read.
    """
    if os.path.exists(os.path.join(campaign, FILE)):
        with open_store(campaign) as store:
            return load_experiment(store)
    if is_planning:
        return Experiment((RANKS,), ())
    raise UsageError(
        f"{campaign}: no campaign here; name one that is, or say what is planned as in"
        " --at p=1024 --levels p=8..128:5"
    )


def proposals_of(
    campaign: str, experiment: Experiment, target: Sequence[float]
) -> Proposals | None:
    """The next runs for a prediction at `target`; None where run times are not known.

    Raises:
        UsageError: campaign.toml has too many levels.
    """
    known = collect_measured_runs(experiment, experiment.parameters)
    if not known.callpaths:
        return None
    given = kept_levels(campaign)
    levels = given if set(given) == set(known.names) else {}
    ordered = {name: levels[name] for name in known.names} if levels else {}
    return propose_runs(
        known,
        target,
        ordered or default_levels(known, target),
        dependencies=dependencies_in(
            find_dependencies_file(os.path.abspath(campaign)), known.callpaths
        ),
        count=FEW,
    )


def kept_levels(campaign: str) -> Levels:
    """What campaign.toml says may be run; empty where it says nothing.

    Raises:
        UsageError: it says what makes no sense.
    """
    data = load_settings(os.path.abspath(campaign)).get("levels")
    if not isinstance(data, dict):
        return {}
    return dict(
        parse_levels(f"{name}={of if isinstance(of, str) else ','.join(map(str, of))}")
        for name, of in data.items()
    )


def farther(known: MeasuredRuns) -> list[float]:
    """The target where none is said: the first parameter far beyond what was run.

    Raises:
        UsageError: nothing was run.
    """
    if not len(known.points):
        raise UsageError("say what is to be predicted, as in --at p=1024: nothing was run yet")
    first, *others = known.points.max(axis=0).tolist()
    return [TARGET_FACTOR * first, *others]


def dependencies_in(file: str | None, callpaths: Sequence[str]) -> dict[str, Dependency]:
    """What a file of `insitu detect` says of call paths; nothing where there is none."""
    return {} if not file else at_callpaths(load_structure(file), callpaths)


def _row(found: Proposals, one: Proposal | None) -> dict[str, object]:
    return {
        "params": None if one is None else dict(one.point.values),
        "prediction": _finite(found.seconds),
        "uncertainty": _finite(found.uncertainty),
        "goal": found.goal,
        "seconds": None if one is None else _finite(one.seconds),
        "uncertainty_then": None if one is None else _finite(one.uncertainty),
        "callpath": one.callpath or None if one is not None else None,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _print(found: Proposals) -> None:
    """The prediction with its relative uncertainty, where there is one, and what to run."""
    if math.isfinite(found.uncertainty):
        click.echo(
            f"{quantity(found.seconds, 's')} at {found.target} by the runs so far, uncertain by "
            f"{percent(found.uncertainty)}; the goal is {percent(found.goal)}"
        )
    for one in found.runs:
        takes = f"; takes about {quantity(one.seconds, 's')}" if one.seconds > 0 else ""
        click.echo(f"run next: {one.point}{takes}{_why(one)}")
    if found.is_enough:
        click.echo("no further run is needed")
    elif found.is_exhausted:
        click.echo("every configuration of --levels was run; give others")


def _why(one: Proposal) -> str:
    if not one.callpath:
        return ", to have runs that differ in everything"
    name = last_frames(one.callpath, NAME_WIDTH)
    return f", leaves {percent(one.uncertainty)}; tells most of {name}"
