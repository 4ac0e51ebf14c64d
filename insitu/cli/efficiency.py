"""`insitu efficiency`: load balance, communication efficiency and scaling, as in POP reports."""

import click

from insitu.analysis.diagnosis.efficiency_table import efficiency_lines
from insitu.cli.messages import print_note
from insitu.cli.options import campaign_argument, json_option
from insitu.cli.output import print_json
from insitu.workflows.efficiency import load_efficiencies


@click.command(name="efficiency")
@campaign_argument
@json_option
@click.option(
    "-a",
    "--at",
    metavar="NAME=VALUE,...",
    help="The point to predict, such as p=4096; predictions reach to 8 times the largest scale.",
)
def command(campaign: str, is_json: bool, at: str | None) -> None:
    """Show the efficiencies of CAMPAIGN as POP defines them: measured, and predicted.

    Parallel efficiency is load balance times communication efficiency, and global efficiency is
    parallel efficiency times computation scaling. They are shown for the whole run, for the
    function with the main loop, and for the phases that the program names. Runs with more ranks
    than free cores are left out. A prediction needs four scales with two or more ranks.
    """
    efficiencies = load_efficiencies(campaign, at=at)
    if is_json:
        for section in efficiencies.sections:
            print_json(section.rows())
    else:
        for line in efficiency_lines(efficiencies.sections):
            click.echo(line)

    if efficiencies.crowded:
        print_note(
            f"{efficiencies.crowded} of {efficiencies.runs} runs had more ranks than cores, or"
            " shared them with other processes, and are not judged; measure up to as many ranks as"
            " there are free cores"
        )
    elif not efficiencies.sections:
        print_note("no times of ranks and of their MPI calls; measure runs with `insitu run`")
