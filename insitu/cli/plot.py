"""`insitu plot`: measured points with their models, as a picture."""

import logging
import os

import click

from insitu.analysis.cost import cost_metric, measured_shares, sort_by_cost
from insitu.campaign.config import load_config
from insitu.campaign.store import open_store
from insitu.cli.output import (
    campaign_argument,
    is_chosen,
    kept_models,
    none_chosen,
)
from insitu.errors import UsageError

SUFFIXES = (".png", ".svg", ".pdf")
COLUMNS_MM = {"single": 88.0, "double": 180.0}  # of a page, as most journals have them
LOGS = {"none": "", "x": "x", "y": "y", "xy": "xy"}
LEAST_MM, MOST_MM = 30.0, 1000.0


@click.command(name="plot")
@campaign_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="PNG, SVG or PDF by its suffix; CAMPAIGN.png if not said.",
)
@click.option(
    "--callpath",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Only call paths that contain PATTERN; * and ? match; may be given several times.",
)
@click.option("--metric", metavar="NAME", help="Which metric; time where it was measured.")
@click.option("--top", default=6, show_default=True, help="How many call paths, costliest first.")
@click.option(
    "--width",
    metavar="WIDTH",
    help="For a paper: single (88 mm), double (180 mm) or a number of mm; no title, small letters.",
)
@click.option(
    "--log",
    "logs",
    type=click.Choice(list(LOGS)),
    help="Which axes are logarithmic; those whose values spread far if not said.",
)
@click.option("--together", is_flag=True, help="All call paths in one field.")
def command(
    *,
    campaign: str,
    output: str | None,
    patterns: tuple[str, ...],
    metric: str | None,
    top: int,
    width: str | None,
    logs: str | None,
    together: bool,
) -> None:
    """Draw the measured points of CAMPAIGN with their models and 95 % bounds.

    One field per call path, the costliest first, one line per class of ranks. PDF has its fonts
    embedded (TrueType), as publishers want it.
    """
    width_mm = _millimetres(width)
    file = output or os.path.normpath(campaign).removesuffix(".insitu") + ".png"
    check_picture(file)
    from insitu.views.plot import PlotStyle, draw

    with open_store(campaign) as store:
        models = kept_models(store)
        share = measured_shares(models)
    chosen_metric = metric or cost_metric(models)
    chosen = [
        one
        for one in sort_by_cost(models, share)
        if any(is_chosen(one.key, pattern, chosen_metric) for pattern in patterns or (None,))
    ]
    if not chosen:
        if not models.models:
            raise UsageError(f"{campaign}: no model to draw")
        known = (one.key.metric for one in models.models)
        raise none_chosen(known, " ".join(patterns) or None, metric)
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
            style=PlotStyle(width_mm, None if logs is None else LOGS[logs], together),
        )
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error
    click.echo(f"{file}: {len(shown)} of {len(paths)} call paths")


def _millimetres(width: str | None) -> float | None:
    if width is None or width in COLUMNS_MM:
        return COLUMNS_MM.get(width or "")
    try:
        found = float(width.removesuffix("mm"))
    except ValueError:
        found = 0.0
    if not LEAST_MM <= found <= MOST_MM:
        raise UsageError(
            f"--width {width}: say single, double, or {LEAST_MM:g} to {MOST_MM:g} mm, as in 120"
        )
    return found


def check_picture(file: str) -> None:
    """Make sure that a picture can be drawn into a file of that name.

    Raises:
        UsageError: its suffix is none of SUFFIXES, or there is no matplotlib.
    """
    if not file.lower().endswith(SUFFIXES):
        raise UsageError(f"{file}: the suffix must be one of {', '.join(SUFFIXES)}")
    logging.getLogger("matplotlib").setLevel(
        logging.ERROR
    )  # where HOME cannot be written, it talks
    try:
        import matplotlib  # noqa: F401  only whether it is there
    except ImportError as error:
        raise UsageError(
            f"a picture needs matplotlib ({error}); pip install 'insitu[plot]'"
        ) from error
