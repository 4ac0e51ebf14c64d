"""`insitu omit`: leave runs out of the models, or take them back."""

from collections.abc import Sequence

import click

from insitu.campaign.selection import OMITTED_CODE, omission_finding, select_runs
from insitu.campaign.store import open_store
from insitu.cli.output import (
    campaign_argument,
    counted,
    json_option,
    print_findings,
    print_json,
)
from insitu.cli.refit import grow, sentence, summary
from insitu.entities import RunRecord, RunState, parse_assignment
from insitu.errors import UsageError

NAMED = 10  # runs in an error


@click.command(name="omit")
@campaign_argument
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--undo", "is_undone", is_flag=True, help="Take them back into the models.")
@json_option
def command(campaign: str, runs: tuple[str, ...], *, is_undone: bool, is_json: bool) -> None:
    """Leave runs of CAMPAIGN out of its models, as those that something disturbed.

    RUN is written as views show it, p=8#1 or p=8,n=64#0; without #, and with some parameters only,
    where that is one run. What was measured stays in the campaign, models are made anew, and
    --undo takes the runs back. `insitu campaign` makes runs that are left out again.
    """
    from insitu.server.discovery import WriterLock

    with open_store(campaign) as store, WriterLock(campaign):
        chosen = [the_run(store.runs(), text, campaign) for text in runs]
        for run in chosen:
            store.add_findings(
                run.id, () if is_undone else (omission_finding(run),), without=OMITTED_CODE
            )
        models = grow(store)
        _, left_out = select_runs(store.runs())
    print_findings([*left_out, *models.findings], is_json=is_json)
    if is_json:
        print_json([summary(models)])
        return
    names = ", ".join(str(run.key) for run in chosen)
    done = "taken back" if is_undone else "left out"
    click.echo(f"{counted(len(chosen), 'run')} {done}: {names}; {sentence(models)}")


def the_run(runs: Sequence[RunRecord], text: str, campaign: str) -> RunRecord:
    """The one run that a text names.

    Raises:
        UsageError: none or several, or one that is not modelled anyway.
    """
    found = [run for run in runs if text in (run.id, str(run.key))] or _matching(runs, text)
    if len(found) != 1:
        keys = [str(run.key) for run in found or runs]
        is_told = len(set(keys)) == len(keys)
        names = keys if is_told else [f"{run.key} ({run.id})" for run in found or runs]
        more = ", …" if len(names) > NAMED else ""
        what = f"'{text}' is {len(found)} runs; say which of" if found else f"no run '{text}' among"
        raise UsageError(f"{campaign}: {what} {', '.join(names[:NAMED]) or 'none'}{more}")
    if found[0].state is not RunState.COMPLETE:
        raise UsageError(f"{campaign}: run {found[0].key} is {found[0].state}: in no model anyway")
    return found[0]


def _matching(runs: Sequence[RunRecord], text: str) -> list[RunRecord]:
    """The runs with these parameters, and this repetition where it is said."""
    place, _, number = text.partition("#")
    try:
        given = dict(map(parse_assignment, place.split(",")))
    except ValueError as error:
        raise UsageError(f"{error}; a run is written as p=8#1") from error
    return [
        run
        for run in runs
        if given.items() <= dict(run.key.parameters).items()
        and number in ("", str(run.key.repetition))
    ]
