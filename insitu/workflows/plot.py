"""Drawing measured points with their models."""

import logging
import os
from dataclasses import dataclass

from insitu.analysis.cost import cost_metric, measured_shares, sort_by_cost
from insitu.campaign.config import load_config
from insitu.campaign.store import open_store
from insitu.errors import CampaignError, UsageError
from insitu.extras import install_command
from insitu.modeling.base import ModelSet
from insitu.workflows.selection import (
    SeriesFilter,
    explain_missing_models,
    limit_callpaths,
    no_match_error,
)

SUFFIXES = (".png", ".svg", ".pdf")
DEFAULT_CALLPATHS = 6


@dataclass(frozen=True, slots=True)
class PlotOptions:
    """How to draw a plot.

    Attributes:
        patterns: draw only call paths that match one of these; empty for all.
        metric: the metric to draw; None for the one that measures cost, usually time.
        limit: how many call paths to draw, the most expensive first.
        width_mm: width of the figure in millimetres; None for a screen.
        log_axes: logarithmic axes, as in "xy" or ""; None to choose by the spread of the values.
        is_together: draw all call paths into one field.
    """

    patterns: tuple[str, ...] = ()
    metric: str | None = None
    limit: int = DEFAULT_CALLPATHS
    width_mm: float | None = None
    log_axes: str | None = None
    is_together: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot that was written: its file, and how many of the matching call paths it shows."""

    file: str
    shown: int
    matching: int


def draw_models(campaign: str, file: str = "", options: PlotOptions = PlotOptions()) -> Plot:
    """Draw the measured points of a campaign with their models and 95 % intervals.

    Args:
        campaign: directory of the campaign.
        file: where to write; the suffix is one of SUFFIXES. Default: CAMPAIGN.png.
        options: what to draw, and how.

    Raises:
        CampaignError: there is no campaign, or it cannot be read, or it has no models.
        UsageError: nothing matches, no matplotlib, or the file cannot be written.
    """
    file = file or os.path.normpath(campaign).removesuffix(".insitu") + ".png"
    require_drawable(file)
    from insitu.views.plot import PlotStyle, draw

    with open_store(campaign) as store:
        models = store.models()
        missing = explain_missing_models(store, models)
    if missing:
        raise CampaignError(f"{missing}; there is nothing to draw")

    share = measured_shares(models)
    metric = options.metric or cost_metric(models)
    filters = [SeriesFilter(pattern, metric) for pattern in options.patterns or (None,)]
    matching = [
        entry
        for entry in sort_by_cost(models.models, share)
        if any(series_filter.accepts(entry.key) for series_filter in filters)
    ]
    if not matching:
        raise _no_match_error(models, options)

    callpaths, hidden = limit_callpaths(
        (entry.key.callpath for entry in matching), max(options.limit, 1)
    )
    config = load_config(campaign)
    try:
        draw(
            [entry for entry in matching if entry.key.callpath in callpaths],
            share,
            title=f"{config.name}: {metric} per rank",
            axis=config.axis(models.parameters[0]),
            file=file,
            style=PlotStyle(options.width_mm, options.log_axes, options.is_together),
        )
    except OSError as error:
        raise UsageError(f"{file}: cannot write: {error.strerror}") from error
    return Plot(file, len(callpaths), len(callpaths) + hidden)


def require_drawable(file: str) -> None:
    """Check that a picture can be drawn into a file of this name.

    Raises:
        UsageError: the suffix is not one of SUFFIXES, or matplotlib is not installed.
    """
    if not file.lower().endswith(SUFFIXES):
        raise UsageError(f"{file}: the suffix must be one of {', '.join(SUFFIXES)}")

    # Without a writable HOME, matplotlib logs warnings that do not help anyone here.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import matplotlib  # noqa: F401  only to check that it is installed
    except ImportError as error:
        raise UsageError(
            f"a picture needs matplotlib ({error}); {install_command('plot')}"
        ) from error


def _no_match_error(models: ModelSet, options: PlotOptions) -> UsageError:
    metrics = (entry.key.metric for entry in models.models)
    return no_match_error(metrics, SeriesFilter(" ".join(options.patterns) or None, options.metric))
