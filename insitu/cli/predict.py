"""`insitu predict`: what the models say elsewhere."""

from collections.abc import Sequence

import click
import numpy as np

from insitu.analysis.cost import measured_shares, sort_by_cost
from insitu.analysis.summary import DOUBTFUL_FACTOR
from insitu.campaign.store import open_store
from insitu.cli.output import (
    Block,
    Column,
    campaign_argument,
    dearest,
    headlines,
    is_chosen,
    json_option,
    none_chosen,
    place,
    print_blocks,
    print_json,
    print_left_out,
    print_other_metrics,
    series_options,
    why_none,
)
from insitu.entities import number, parse_assignment
from insitu.errors import CampaignError, UsageError
from insitu.formats.table import predictions
from insitu.modeling.base import SeriesModel
from insitu.units import percent, quantity

COLUMNS = (
    Column("metric"),
    Column("class"),
    Column("at", is_wide=True),
    Column("value", is_right=True),
    Column("95 % between", is_right=True),
    Column("and", is_right=True),
)


@click.command(name="predict")
@campaign_argument
@click.option(
    "--at",
    "points",
    multiple=True,
    required=True,
    metavar="NAME=VALUE,...",
    help="Where, as in p=1024,n=256; may be given several times.",
)
@json_option
@series_options
def command(
    campaign: str,
    points: tuple[str, ...],
    *,
    is_json: bool,
    callpath: str | None,
    metric: str | None,
    top: int | None,
) -> None:
    """Tell what the models of CAMPAIGN say for scales that were not measured.

    A value per rank, with the bounds between which a measurement lies with 95 % probability; the
    share is that of the call path now, at the largest measured scale.
    """
    with open_store(campaign) as store:
        models = store.models()
        if not models.models:
            raise CampaignError(why_none(store, models))
        share = measured_shares(models)
    wanted = [coordinate(text, models.parameters) for text in points]
    chosen = [one for one in sort_by_cost(models, share) if is_chosen(one.key, callpath, metric)]
    if not chosen:
        raise none_chosen((one.key.metric for one in models.models), callpath, metric)
    shown, left_out = dearest((one.key.callpath for one in chosen), top, is_json=is_json)
    chosen = [one for one in chosen if one.key.callpath in shown]
    if is_json:
        print_json(_row(one, wanted) for one in chosen)
        return
    others: set[str] = set()
    if metric is None and callpath is None:
        asked = [(str(one.key.callpath), one.key.metric, str(one.model)) for one in chosen]
        kept = [one for one, is_shown in zip(chosen, headlines(asked), strict=True) if is_shown]
        others = {one.key.metric for one in chosen} - {one.key.metric for one in kept}
        chosen = kept
    blocks: dict[str, tuple[str, list[tuple[str, ...]]]] = {}
    for one in chosen:
        mark = percent(share.get(one.key.callpath, 0.0))
        blocks.setdefault(str(one.key.callpath), (mark, []))[1].extend(_lines(one, wanted))
    if blocks:
        rows = [Block(mark, path, lines) for path, (mark, lines) in blocks.items()]
        print_blocks("share", COLUMNS, rows)
    print_left_out(left_out)
    _say_how_far(wanted, chosen)
    print_other_metrics(others)


def _say_how_far(wanted: Sequence[Sequence[float]], chosen: Sequence[SeriesModel]) -> None:
    """Say which points are so far from what was measured that no model tells much there."""
    largest = np.max([one.model.coordinates.max(axis=0) for one in chosen], axis=0)
    for point in wanted:
        for name, value, known in zip(chosen[0].model.parameters, point, largest, strict=True):
            if value > DOUBTFUL_FACTOR * known:
                click.echo(
                    f"note: {name}={number(value)} is {value / known:.3g} times the largest that"
                    f" was measured; trust predictions to {DOUBTFUL_FACTOR:g} times, "
                    "beyond look at the bounds",
                    err=True,
                )


def coordinate(text: str, parameters: Sequence[str]) -> list[float]:
    """Read `p=1024,n=256` as a point of the campaign's parameters.

    Raises:
        UsageError: not NAME=VALUE, a parameter that is unknown, missing or named twice.
    """
    values: dict[str, float] = {}
    known = ", ".join(parameters)
    for part in text.split(","):
        try:
            name, value = parse_assignment(part)
        except ValueError as error:
            raise UsageError(f"--at {text}: {error}; the models are over {known}") from error
        if name not in parameters:
            raise UsageError(
                f"--at {text}: the models know no parameter '{name}'; they are over {known}"
            )
        if name in values:
            raise UsageError(f"--at {text}: '{name}' stands there twice")
        values[name] = value
    missing = [name for name in parameters if name not in values]
    if missing:
        example = ",".join(f"{name}=VALUE" for name in missing)
        raise UsageError(f"--at {text}: the models are over {known}; say {example} as well")
    if any(value <= 0 for value in values.values()):
        raise UsageError(f"--at {text}: models hold for values above 0")
    return [values[name] for name in parameters]


def _row(series: SeriesModel, points: list[list[float]]) -> dict[str, object]:
    return {
        "callpath": str(series.key.callpath),
        "metric": series.key.metric,
        "unit": series.metric.unit,
        "class": series.key.behaviour,
        "text": str(series.model),
        "predictions": predictions(series.model, points),
    }


def _lines(series: SeriesModel, points: list[list[float]]) -> list[tuple[str, ...]]:
    unit = series.metric.unit

    def shown(value: float | None) -> str:
        return "–" if value is None else quantity(value, unit)

    return [
        (
            series.key.metric,
            series.key.behaviour,
            place(found["at"].items()),
            *(shown(found[name]) for name in ("value", "low", "high")),
        )
        for found in predictions(series.model, points)
    ]
