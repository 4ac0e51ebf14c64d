"""`insitu label`: add parameters to runs that were measured without them, and correct them."""

import click

from insitu.cli.campaign_names import complete_run
from insitu.cli.messages import print_note
from insitu.cli.options import json_option, named_campaign_argument
from insitu.cli.output import count_text, print_findings, print_json
from insitu.cli.refit import model_counts, model_sentence
from insitu.entities import parse_assignment
from insitu.errors import UsageError
from insitu.workflows.label import label_runs


@click.command(name="label")
@named_campaign_argument
@click.argument(
    "words", metavar="RUN... NAME=VALUE...", nargs=-1, required=True, shell_complete=complete_run
)
@json_option
def command(campaign: str, words: tuple[str, ...], *, is_json: bool) -> None:
    """Add parameters to runs of CAMPAIGN that were measured without them, or correct them.

    RUN is written as in all output, with its repetition: p=4#0. Each NAME=VALUE without a # is a
    parameter that all these runs had, as in `insitu label heat.insitu p=4#0 p=8#0 n=128`. NAME=
    without a value removes a parameter: `insitu label heat.insitu p=4,m=128#0 m= n=128` renames
    one. The models are fitted again.
    """
    runs = [word for word in words if "#" in word]
    assignments = [word for word in words if "#" not in word]
    if not runs or not assignments:
        raise UsageError("name runs and parameters, as in p=4#0 n=128")
    removed = [word[:-1] for word in assignments if word.endswith("=") and len(word) > 1]
    given = [word for word in assignments if not word.endswith("=") or len(word) == 1]
    try:
        parameters = dict(map(parse_assignment, given))
    except ValueError as error:
        raise UsageError(str(error)) from error

    labelling = label_runs(campaign, runs, parameters, removed)
    if is_json:
        print_json([model_counts(labelling.models)])
        print_findings(labelling.findings, is_json=True)
        return

    names = ", ".join(map(str, labelling.runs))
    count = count_text(len(labelling.runs), "run")
    click.echo(f"{count} labelled: {names}; {model_sentence(labelling.models)}")
    if labelling.corrected:
        before = ", ".join(map(str, labelling.corrected))
        print_note(f"these runs had other values until now: {before}")
    print_findings(labelling.findings)
