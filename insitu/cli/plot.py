"""`insitu plot`: measured points with their models, as a picture."""

import os

import click

from insitu.campaign.config import load_config
from insitu.campaign.store import open_store
from insitu.cli.output import campaign_argument, is_chosen, kept_models
from insitu.errors import UsageError
from insitu.monitor.cost import by_cost, cost_metric, shares

SUFFIXES = (".png", ".svg", ".pdf")


@click.command(name="plot")
@campaign_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="PNG, SVG or PDF by its suffix; CAMPAIGN.png if not said.",
)
@click.option("--callpath", metavar="PATTERN", help="Only call paths that contain PATTERN.")
@click.option("--metric", metavar="NAME", help="Which metric; time where it was measured.")
@click.option("--top", default=6, show_default=True, help="How many call paths, dearest first.")
def command(
    campaign: str, output: str | None, callpath: str | None, metric: str | None, top: int
) -> None:
    """Draw the measured points of CAMPAIGN with their models and 95 % bounds.

    One field per call path, the dearest first, one line per class of ranks.
    """
    file = output or os.path.normpath(campaign).removesuffix(".insitu") + ".png"
    check_picture(file)
    from insitu.monitor.picture import draw

    with open_store(campaign) as store:
        models = kept_models(store)
    chosen_metric = metric or cost_metric(models)
    share = shares(models)
    chosen = [one for one in by_cost(models, share) if is_chosen(one.key, callpath, chosen_metric)]
    if not chosen:
        known = ", ".join(sorted({one.key.metric for one in models.models})) or "none"
        raise UsageError(
            f"{campaign}: no model of {chosen_metric or 'anything'} to draw; metrics: {known}"
        )
    paths = list(dict.fromkeys(one.key.callpath for one in chosen))
    shown = set(paths[: max(top, 1)])
    config = load_config(campaign)
    try:
        draw(
            [one for one in chosen if one.key.callpath in shown],
            share,
            title=f"{config.name}: {chosen_metric} per rank",
            axis=config.axis(models.parameters[0]),
            file=file,
        )
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error
    click.echo(f"{file}: {len(shown)} of {len(paths)} call paths")


def check_picture(file: str) -> None:
    """Make sure that a picture can be drawn into a file of that name.

    Raises:
        UsageError: its suffix is none of SUFFIXES, or there is no matplotlib.
    """
    if not file.lower().endswith(SUFFIXES):
        raise UsageError(f"{file}: the suffix must be one of {', '.join(SUFFIXES)}")
    try:
        import matplotlib  # noqa: F401  only whether it is there
    except ImportError as error:
        raise UsageError(
            f"a picture needs matplotlib ({error}); pip install 'insitu[plot]'"
        ) from error
