"""`insitu advise`: what to run next."""

import click

from insitu.analysis.callpaths import last_frames
from insitu.cli.options import DEFAULT_TARGET, campaign_argument, json_option
from insitu.cli.output import print_json
from insitu.design.campaign_plan import GOAL
from insitu.design.levels import parse_levels
from insitu.design.proposals import Proposal, Proposals
from insitu.entities import finite
from insitu.units import percent, quantity
from insitu.workflows.advise import advise_runs

NAME_WIDTH = 60  # columns for a call path


@click.command(name="advise")
@campaign_argument
@click.option(
    "-a",
    "--at",
    "at",
    metavar="NAME=VALUE,...",
    help=f"The point to predict, such as p=1024 ({DEFAULT_TARGET}).",
)
@click.option(
    "-l",
    "--levels",
    "levels",
    multiple=True,
    metavar="NAME=VALUES",
    help="The values that runs may have, such as n=32,64 or p=8..128:5; may be repeated (default:"
    " [levels] of campaign.toml, else the measured values and up to four times as much).",
)
@click.option(
    "-d",
    "--dependencies",
    type=click.Path(),
    help="Dependencies written by `insitu detect`, which save runs (default: dependencies.json of"
    " CAMPAIGN).",
)
@click.option(
    "-g",
    "--goal",
    type=click.FloatRange(min=0.001),
    default=GOAL,
    show_default=True,
    help="Relative uncertainty of the prediction at which no further run is needed.",
)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(1, 50),
    default=1,
    show_default=True,
    help="How many runs to propose, each as if those before it had been made.",
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
    """Propose the run that improves a prediction most per core hour.

    The first proposals differ from each other in all parameters. After that, each proposal is the
    run that lowers the uncertainty of the prediction most for its cost, until the uncertainty is
    below the goal. Behaviour classes that exist at fewer than five numbers of ranks come first.
    """
    proposals = advise_runs(
        campaign,
        at=at,
        levels=dict(map(parse_levels, levels)),
        dependencies=dependencies,
        goal=goal,
        count=count,
    )
    if is_json:
        runs = proposals.runs or [None]
        print_json(_row(proposals, run) for run in runs)
    else:
        _print(proposals)


def _row(proposals: Proposals, run: Proposal | None) -> dict[str, object]:
    """Return a proposal as JSON; without a run, only the prediction."""
    return {
        "params": None if run is None else dict(run.point.values),
        "prediction": finite(proposals.seconds) if proposals.is_clear else None,
        "unclear": proposals.unclear or proposals.doubt or None,
        "uncertainty": None if proposals.unclear else finite(proposals.uncertainty),
        "goal": proposals.goal,
        "seconds": None if run is None else finite(run.seconds),
        "uncertainty_then": (None if run is None or proposals.unclear else finite(run.uncertainty)),
        "callpath": None if run is None else run.callpath or None,
        "reason": None if run is None else run.reason or None,
    }


def _print(proposals: Proposals) -> None:
    """Print the prediction with its uncertainty, if there is one, and the proposed runs."""
    prediction = proposals.describe_prediction()
    if prediction:
        click.echo(prediction)

    for run in proposals.runs:
        duration = f"; takes about {quantity(run.seconds, 's')}" if run.seconds > 0 else ""
        click.echo(f"run next: {run.point}{duration}{_reason(run, has_gain=not proposals.unclear)}")

    if proposals.is_enough:
        click.echo("no further run is needed")
    elif proposals.is_exhausted:
        click.echo(
            "all configurations that may be run have been run; allow more values with --levels"
        )


def _reason(run: Proposal, *, has_gain: bool) -> str:
    if run.reason:
        return f"; {run.reason}"
    if not run.callpath:
        return "; the first runs should differ in all parameters"
    name = last_frames(run.callpath, NAME_WIDTH)
    if not has_gain:
        return f"; reveals most about {name}"
    return f"; lowers the uncertainty to {percent(run.uncertainty)}, mostly that of {name}"
