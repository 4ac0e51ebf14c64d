"""The campaign that a command means without a name, and the names in it that a shell completes."""

import os
from collections.abc import Callable, Iterable

import click

from insitu.campaign.catalogue import Catalogue, open_catalogue
from insitu.campaign.layout import CAMPAIGN_FILE, DATABASE
from insitu.campaign.ownership import check_readable, describe_foreign_writer
from insitu.errors import InsituError, UsageError
from insitu.text import printable

Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def list_campaigns(directory: str = ".") -> list[str]:
    """The campaigns in a directory by name: folders with measurements or with a campaign.toml."""
    campaigns = []
    with os.scandir(directory) as entries:
        for entry in entries:
            files = [os.path.join(entry.path, name) for name in (DATABASE, CAMPAIGN_FILE)]
            if any(map(os.path.exists, files)):
                campaigns.append(entry.name)
    return sorted(campaigns)


def only_campaign() -> str:
    """The only campaign in the current directory.

    Raises:
        UsageError: there is no campaign here, or there are several.
    """
    campaigns = list_campaigns()
    if len(campaigns) == 1:
        return campaigns[0]
    where = f"several are here: {', '.join(campaigns)}" if campaigns else "there is none here"
    raise UsageError(f"name the campaign; {where}")


def choose_campaign(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """The campaign that the user names, else the only one in the current directory.

    A warning is printed if somebody else could have written the campaign.

    Raises:
        UsageError: none is named, and there is not exactly one.
        CampaignError: the user may not read it.
    """
    if ctx.resilient_parsing:
        return value
    campaign = only_campaign() if value is None else value
    check_readable(campaign)
    writer = describe_foreign_writer(campaign)
    if writer:
        click.echo(f"warning: {printable(writer)}; what it contains may not be yours", err=True)
    return campaign


def _complete_names(list_names: Callable[[Catalogue], Iterable[str]]) -> Completion:
    """A completion function for names that a campaign contains."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        # click stops parsing at an option that lacks its value, and keeps the words before it.
        campaign = ctx.params.get("campaign") or next(iter(ctx.args), None)
        if campaign is None:
            campaigns = list_campaigns()
            campaign = campaigns[0] if len(campaigns) == 1 else ""
        try:
            with open_catalogue(campaign) as catalogue:
                names = set(list_names(catalogue))
        except InsituError:
            return []  # a shell shows no errors while the user types
        return sorted(name for name in names if name.startswith(incomplete))

    return complete


def _functions(catalogue: Catalogue) -> Iterable[str]:
    """The last frames of all call paths; whole paths contain `>`, which redirects in a shell."""
    for run in catalogue.runs():
        for path in catalogue.callpaths(run.id):
            yield path.name


complete_metric = _complete_names(lambda catalogue: catalogue.metric_names())
complete_callpath = _complete_names(_functions)
complete_run = _complete_names(lambda catalogue: [str(run.key) for run in catalogue.runs()])
