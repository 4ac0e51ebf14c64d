"""`insitu plot`: measured points with their models, as a picture."""

import click

from insitu.cli.campaign_names import complete_callpath, complete_metric
from insitu.cli.options import campaign_argument
from insitu.errors import UsageError
from insitu.workflows.plot import DEFAULT_CALLPATHS, PlotOptions, draw_models

COLUMN_WIDTHS_MM = {"single": 88.0, "double": 180.0}  # in most journals
LEAST_MM, MOST_MM = 30.0, 1000.0
LOG_AXES = {"none": "", "x": "x", "y": "y", "xy": "xy"}


@click.command(name="plot")
@campaign_argument
@click.option(
    "-o",
    "--output",
    default="",
    metavar="FILE",
    help="Write to FILE: PNG, SVG or PDF by its suffix (default: CAMPAIGN.png).",
)
@click.option(
    "-c",
    "--callpath",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    shell_complete=complete_callpath,
    help="Draw only call paths that contain PATTERN; * and ? are wildcards; may be repeated.",
)
@click.option(
    "-m",
    "--metric",
    metavar="NAME",
    shell_complete=complete_metric,
    help="The metric to draw (default: time if measured).",
)
@click.option(
    "-t",
    "--top",
    "limit",
    default=DEFAULT_CALLPATHS,
    show_default=True,
    help="How many call paths to draw, the most expensive first.",
)
@click.option(
    "-w",
    "--width",
    metavar="WIDTH",
    help="Width for a paper: single (88 mm), double (180 mm) or a number of mm; draws no title and"
    " uses small letters.",
)
@click.option(
    "-l",
    "--log",
    "log_axes",
    type=click.Choice(list(LOG_AXES)),
    help="Logarithmic axes (default: those whose values span a wide range).",
)
@click.option("--together", "is_together", is_flag=True, help="Draw all call paths in one field.")
def command(
    *,
    campaign: str,
    output: str,
    patterns: tuple[str, ...],
    metric: str | None,
    limit: int,
    width: str | None,
    log_axes: str | None,
    is_together: bool,
) -> None:
    """Draw the measured points of CAMPAIGN with their models and 95 % intervals.

    The picture has one field per call path, the most expensive first, and one line per behaviour
    class. A PDF embeds its fonts (TrueType), as publishers require.
    """
    options = PlotOptions(
        patterns,
        metric,
        limit=limit,
        width_mm=_parse_width(width),
        log_axes=None if log_axes is None else LOG_AXES[log_axes],
        is_together=is_together,
    )
    plot = draw_models(campaign, output, options)
    click.echo(f"{plot.file}: {plot.shown} of {plot.matching} call paths")


def _parse_width(text: str | None) -> float | None:
    if text is None:
        return None
    if text in COLUMN_WIDTHS_MM:
        return COLUMN_WIDTHS_MM[text]

    try:
        width = float(text.removesuffix("mm"))
    except ValueError:
        width = 0.0

    if not LEAST_MM <= width <= MOST_MM:
        raise UsageError(
            f"--width {text}: expected single, double, or {LEAST_MM:g} to {MOST_MM:g} mm, such as"
            " 120"
        )

    return width
