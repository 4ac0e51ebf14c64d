"""`insitu omit`: leave runs out of the models, or use them again."""

import click

from insitu.cli.campaign_names import complete_run
from insitu.cli.options import json_option, named_campaign_argument
from insitu.cli.output import count_text, print_findings, print_json
from insitu.cli.refit import model_counts, model_sentence
from insitu.workflows.omit import omit_runs


@click.command(name="omit")
@named_campaign_argument
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_run)
@click.option("-u", "--undo", "is_restoring", is_flag=True, help="Use the runs for models again.")
@json_option
def command(campaign: str, runs: tuple[str, ...], *, is_restoring: bool, is_json: bool) -> None:
    """Leave runs of CAMPAIGN out of its models, such as runs that something disturbed.

    RUN is written as in all output: p=8#1 or p=8,n=64#0. The repetition and some parameters may be
    left out if the rest identifies one run. The measurements stay in the campaign, the models are
    fitted again, and --undo reverts this. `insitu campaign` repeats omitted runs.
    """
    omission = omit_runs(campaign, runs, is_restoring=is_restoring)
    if is_json:
        print_json([model_counts(omission.models)])
        print_findings(omission.findings, is_json=True)
        return

    names = ", ".join(str(run.key) for run in omission.runs)
    action = "used again" if is_restoring else "omitted"
    count = count_text(len(omission.runs), "run")
    click.echo(f"{count} {action}: {names}; {model_sentence(omission.models)}")
    print_findings(omission.findings)
