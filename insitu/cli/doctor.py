"""`insitu doctor`: what works on this machine."""

from dataclasses import asdict

import click

from insitu.cli.options import json_option
from insitu.cli.output import print_json
from insitu.text import printable
from insitu.workflows.doctor import LIMITED, MISSING, OK, check_machine

COLOURS = {OK: "green", MISSING: "red", LIMITED: "yellow"}


@click.command(name="doctor")
@json_option
def command(is_json: bool) -> None:
    """Check what works on this machine, and print what to do about the rest.

    Without a compiler or MPI, insitu can still show campaigns that were measured elsewhere.
    """
    checks = check_machine()
    if is_json:
        print_json(asdict(check) for check in checks)
        return

    width = max(len(check.name) for check in checks)
    for check in checks:
        state = click.style(f"{check.state:<8}", fg=COLOURS[check.state])
        click.echo(f"{check.name:<{width}}  {state} {printable(check.found)}")
        if check.advice:
            click.echo(" " * (width + 2) + f"-> {check.advice}")
