"""`insitu runs`: the runs of a campaign."""

import time

import click

from insitu.cli.options import campaign_argument, json_option
from insitu.cli.output import count_text, print_folded, print_json
from insitu.text import printable
from insitu.units import quantity
from insitu.views.text import STATES, describe_failures
from insitu.workflows.runs import ListedRun, list_runs


@click.command(name="runs")
@campaign_argument
@json_option
def command(campaign: str, is_json: bool) -> None:
    """List the runs of CAMPAIGN: when, where, how long, how they ended, and their findings.

    `insitu omit CAMPAIGN RUN` leaves a run out of the models. `insitu explain CODE` says what a
    finding means.
    """
    runs = list_runs(campaign)
    if is_json:
        print_json(map(_row, runs))
        return

    width = max((len(run.row.name) for run in runs), default=0)
    for run in runs:
        click.echo(f"{printable(run.row.name):<{width}}  {_state(run)}")
        for line in _details(run):
            print_folded(" " * (width + 2) + line)
    unused = sum(not run.is_used for run in runs)
    note = f"; {unused} of them in no model" if unused else ""
    click.echo(f"{count_text(len(runs), 'run')}{note}")


def _row(run: ListedRun) -> dict[str, object]:
    row = run.row
    return {
        "run": row.name,
        "params": dict(row.parameters),
        "state": row.state,
        "used": run.is_used,
        "started_at": row.started_at,
        "seconds": row.ended_at - row.started_at if row.ended_at else None,
        "host": row.host,
        "command": row.command,
        "missing": list(row.missing),
        "failures": {str(rank): status for rank, status in row.failures},
        "findings": [{"code": entry.code, "text": entry.text} for entry in run.findings],
    }


def _state(run: ListedRun) -> str:
    """`2026-11-22 13:47  complete, 3.1 s on n1  python heat.py`."""
    row = run.row
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started_at))
    state = STATES.get(row.state, row.state)
    colour = None if run.is_used else "yellow"
    took = f", {quantity(row.ended_at - row.started_at, 's')}" if row.ended_at else ""
    host = f" on {row.host}" if row.host else ""
    return f"{date}  {click.style(state, fg=colour)}{printable(took + host)}"


def _details(run: ListedRun) -> list[str]:
    """The command, the ranks that failed, and the findings with their codes."""
    lines = [f"$ {run.row.command}"] if run.row.command else []
    failures = describe_failures(run.row)
    if failures:
        lines.append(f"✘ {failures}")
    return lines + [f"{finding.code}: {finding.text}" for finding in run.findings]
