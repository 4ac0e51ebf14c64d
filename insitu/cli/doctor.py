"""`insitu doctor`: what works on this machine."""

from dataclasses import asdict

import click

from insitu.cli.options import json_option
from insitu.cli.output import print_json
from insitu.text import printable
from insitu.workflows.doctor import LIMITED, MISSING, OK, OPTIONAL, check_machine
from insitu.workflows.integrity import check_campaign

COLOURS = {OK: "green", MISSING: "red", LIMITED: "yellow", OPTIONAL: "cyan"}


@click.command(name="doctor")
@click.argument("campaign", type=click.Path(), metavar="[CAMPAIGN]", required=False)
@json_option
def command(campaign: str | None, is_json: bool) -> None:
    """Check what works on this machine, and print what to do about the rest.

    With CAMPAIGN, check its files instead: everything is read and compared with its checksum, and
    nothing is changed.

    Without a compiler or MPI, insitu can still show campaigns that were measured elsewhere.
    """
    checks = check_machine() if campaign is None else check_campaign(campaign)
    if is_json:
        print_json(asdict(check) for check in checks)
        return

    width = max(len(check.name) for check in checks)
    for check in checks:
        state = click.style(f"{check.state:<8}", fg=COLOURS[check.state])
        click.echo(f"{check.name:<{width}}  {state} {printable(check.found)}")
        if check.advice:
            click.echo(" " * (width + 2) + f"-> {check.advice}")
