"""`insitu runs`: the runs of a campaign."""

import time

import click

from insitu.cli.options import campaign_argument, json_option
from insitu.cli.output import count_text, print_folded, print_json
from insitu.run.summary import combine_findings
from insitu.text import printable
from insitu.units import quantity
from insitu.views.text import STATES, describe_failures
from insitu.workflows.runs import ListedRun, list_runs

MAX_NODES = 4  # of a run that are listed; --json has all


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
            print_folded(line, indent=width + 2)
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
        "seconds": row.ended_at - row.started_at if row.ended_at > row.started_at else None,
        "host": row.host,
        "command": row.command,
        "missing": list(row.missing),
        "failures": {str(rank): status for rank, status in row.failures},
        "nodes": [
            {"name": node.name, "ranks": list(node.ranks), **node.facts} for node in run.nodes
        ],
        "findings": [{"code": entry.code, "text": entry.text} for entry in run.findings],
    }


def _node_lines(run: ListedRun) -> list[str]:
    """`n1: 4 ranks, 8 processors, 2 NUMA nodes, 2,100 MHz, load 0.3` for the first nodes."""
    lines = []
    for node in run.nodes[:MAX_NODES]:
        facts = node.facts
        texts = [count_text(len(node.ranks), "rank")]
        for name, noun in (("processors", "processor"), ("numa_nodes", "NUMA node")):
            value = facts.get(name)
            if isinstance(value, int):
                texts.append(count_text(value, noun))
        if isinstance(facts.get("mhz"), int):
            texts.append(f"{facts['mhz']:,} MHz")
        if "load" in facts:
            texts.append(f"load {facts['load']} at the start")
        lines.append(f"{node.name}: {', '.join(texts)}")

    more = len(run.nodes) - MAX_NODES
    return [*lines, f"and {count_text(more, 'more node')}"] if more > 0 else lines


def _state(run: ListedRun) -> str:
    """`2026-11-22 13:47  complete, 3.1 s on n1  python heat.py`."""
    row = run.row
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started_at))
    state = STATES.get(row.state, row.state)
    colour = None if run.is_used else "yellow"
    seconds = row.ended_at - row.started_at  # 0 of imported runs
    took = f", {quantity(seconds, 's')}" if seconds > 0 else ""
    host = f" on {row.host}" if row.host else ""
    return f"{date}  {click.style(state, fg=colour)}{printable(took + host)}"


def _details(run: ListedRun) -> list[str]:
    """The command, the ranks that failed, and the findings with their codes."""
    lines = [f"$ {run.row.command}"] if run.row.command else []
    lines += _node_lines(run)
    failures = describe_failures(run.row)
    if failures:
        lines.append(f"✘ {failures}")
    return lines + combine_findings(run.findings)
