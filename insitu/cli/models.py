"""`insitu models`: how each call path grows."""

from collections.abc import Mapping

import click

from insitu.analysis.cost import measured_points, measured_shares, sort_by_cost
from insitu.analysis.deviation import OFF_FORECAST
from insitu.campaign.config import Config, load_config
from insitu.campaign.selection import is_omitted, select_runs
from insitu.campaign.store import open_store
from insitu.cli.output import (
    Block,
    Column,
    about,
    campaign_argument,
    dearest,
    headlines,
    is_chosen,
    json_option,
    kept_models,
    none_chosen,
    print_blocks,
    print_findings,
    print_folded,
    print_json,
    print_left_out,
    print_other_metrics,
    series_options,
)
from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, Finding, number
from insitu.formats.table import model_row
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.search import TOO_FEW
from insitu.run.summary import LEAST_SCALES
from insitu.text import printable
from insitu.units import percent

NAMED = 5  # call paths without a model
LEAST_SHARE = 0.005  # of such a call path, to be worth a word
COLUMNS = (
    Column("metric"),
    Column("class"),
    Column("model", is_wide=True),
    Column("unit"),
    Column("error", is_right=True),
)


@click.command(name="models")
@campaign_argument
@json_option
@series_options
def command(
    campaign: str, is_json: bool, callpath: str | None, metric: str | None, top: int | None
) -> None:
    """Show how each call path of CAMPAIGN grows, the costliest at the largest scale first.

    One line per metric and class of ranks: the model, and its mean error at the measured points
    (SMAPE). The share is that of the call path in the time of all ranks. Without
    --metric and --callpath only metrics that tell most are shown, and no model that is 0.
    """
    with open_store(campaign) as store:
        models = kept_models(store)
        runs = store.runs()
        _, left_out_runs = select_runs(runs)
        known = [run for run in reversed(runs) if not is_omitted(run)]
        off = [one for run in known for one in run.findings if one.code == OFF_FORECAST]
    share = measured_shares(models)
    chosen = [one for one in sort_by_cost(models, share) if is_chosen(one.key, callpath, metric)]
    if models.models and not chosen:
        raise none_chosen((one.key.metric for one in models.models), callpath, metric)
    shown, left_out = dearest((one.key.callpath for one in chosen), top, is_json=is_json)
    rows = [one for one in chosen if one.key.callpath in shown]
    if is_json:
        print_json(model_row(one) | {"share": share.get(one.key.callpath, 0.0)} for one in rows)
        return
    others: list[str] = []
    if metric is None and callpath is None:
        asked = [(str(one.key.callpath), one.key.metric, str(one.model)) for one in rows]
        kept = [one for one, is_shown in zip(rows, headlines(asked), strict=True) if is_shown]
        others = [one.key.metric for one in rows]
        others = sorted(set(others) - {one.key.metric for one in kept})
        rows = kept
    if rows:
        _print(rows, share, _title(models, load_config(campaign)))
    print_left_out(left_out)
    print_other_metrics(others)
    if callpath is None and metric in (None, TIME.name, TIME_EXCLUSIVE.name):
        _print_rest(models.rest)
    findings = about(models, shown)
    unsaid = [one for one in findings if not _is_said(one, models)]
    print_findings([*off, *left_out_runs, *unsaid])


def _is_said(finding: Finding, models: ModelSet) -> bool:
    """Whether the line about call paths without a model, or about all, says it already."""
    return finding.code == TOO_FEW and (finding.where != "" or not models.models)


def _print_rest(rest: Mapping[CallPath, float]) -> None:
    """Say which call paths have no model of their time."""
    dear = [(path.name, share) for path, share in rest.items() if share >= LEAST_SHARE]
    if not dear:
        return
    named = ", ".join(f"{percent(share)} {name}" for name, share in dear[:NAMED])
    more = f" and {len(dear) - NAMED} more" if len(dear) > NAMED else ""
    print_folded(
        f"no model of their time yet: {named}{more}; a class of ranks needs {LEAST_SCALES} scales"
    )


def _print(rows: list[SeriesModel], share: dict[CallPath, float], title: str) -> None:
    click.echo(f"{title}\n")
    blocks: dict[CallPath, list[tuple[str, ...]]] = {}
    for one in rows:
        row = (
            one.key.metric,
            one.key.behaviour,
            str(one.model),
            one.metric.unit.replace("1", ""),
            percent(one.model.smape / 100),
        )
        blocks.setdefault(one.key.callpath, []).append(row)
    print_blocks(
        "share",
        COLUMNS,
        [Block(percent(share.get(path, 0.0)), str(path), lines) for path, lines in blocks.items()],
    )


def _title(models: ModelSet, config: Config) -> str:
    points = {at for one in models.models for at, _ in measured_points(one.model)}
    scales = sorted({at[0] for at in points})
    names = ", ".join(map(config.axis, models.parameters))
    span = f"{number(scales[0])} … {number(scales[-1])}" if scales else ""
    return printable(
        f"{config.name}: {len(models.models)} models over {names}, {len(points)} points"
        f" ({models.parameters[0]} = {span})"
    )
