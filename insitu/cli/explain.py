"""`insitu explain`: what a finding means, and what to do about it."""

from difflib import get_close_matches

import click

from insitu.analysis.finding_help import FINDING_HELP, STATEMENT_HELP
from insitu.cli.options import json_option
from insitu.cli.output import print_folded, print_json
from insitu.errors import UsageError

HELP = {**FINDING_HELP, **STATEMENT_HELP}


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [code for code in HELP if code.startswith(incomplete)]


@click.command(name="explain")
@click.argument("codes", metavar="[CODE]...", nargs=-1, shell_complete=_complete)
@json_option
def command(codes: tuple[str, ...], is_json: bool) -> None:
    """Explain the finding CODE, or a kind of statement of `insitu diagnose`, such as serial.

    Prints what it means and what to do about it; without CODE, all of them.
    """
    unknown = [code for code in codes if code not in HELP]
    if unknown:
        similar = get_close_matches(unknown[0], HELP, 2, 0.5)
        hint = f"did you mean {' or '.join(similar)}?" if similar else "`insitu explain` lists all"
        raise UsageError(f"no finding '{unknown[0]}'; {hint}")

    for code in codes or HELP:
        entry = HELP[code]
        if is_json:
            print_json([{"code": code, "meaning": entry.meaning, "action": entry.action}])
            continue
        click.secho(code, bold=True)
        print_folded(f"  {entry.meaning}")
        print_folded(f"  What to do: {entry.action}")
