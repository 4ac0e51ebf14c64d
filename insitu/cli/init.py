"""`insitu init`: a new campaign with its campaign.toml."""

import click

from insitu.workflows.init import init_campaign


@click.command(name="init", context_settings={"ignore_unknown_options": True})
@click.argument("campaign", type=click.Path(), metavar="CAMPAIGN")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "-l",
    "--levels",
    multiple=True,
    metavar="NAME=VALUES",
    help="Values of a parameter, such as p=2,3,4,6,8 or n=64..512:4; may be repeated (default:"
    " p=2,3,4,6,8,12).",
)
@click.option(
    "-L", "--launcher", default="mpiexec", metavar="NAME", help="mpiexec, srun, flux, sbatch, …"
)
def command(
    campaign: str, words: tuple[str, ...], *, levels: tuple[str, ...], launcher: str
) -> None:
    """Write campaign.toml into CAMPAIGN, a new directory: which runs of COMMAND to make.

    Parameters in braces are replaced by their values: ./heat.py --cells {n}. `insitu campaign run`
    then makes the runs, and `insitu diagnose` says what will limit the program.
    """
    file = init_campaign(campaign, words, levels=levels, launcher=launcher)
    directory = file.rpartition("/")[0]
    click.echo(f"{file} is written; edit it, then: insitu campaign run {directory}")
