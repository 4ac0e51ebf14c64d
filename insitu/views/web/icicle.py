"""The icicle of a run, or of a prediction, as JSON for the page."""

from collections.abc import Mapping
from typing import Any

from insitu.analysis.icicle import icicle_of_run, predict_icicle
from insitu.analysis.scaling import fill_coordinate, measured_coordinates
from insitu.entities import CallPath
from insitu.modeling.base import ModelSet
from insitu.views.source import BoardSource, Site

MAX_ROWS = 4_000  # call paths that are sent, the most expensive

Json = dict[str, Any]  # Any: JSON


def icicle_json(
    source: BoardSource, models: ModelSet, *, run_id: str, fixed: Mapping[str, float]
) -> Json:
    """The icicle of a run, or of what the models predict if `run_id` is empty.

    Args:
        source: of the campaign.
        models: the stored models.
        run_id: of a stored run; "" for a prediction.
        fixed: values of parameters of the prediction; the largest measured values by default.

    Raises:
        CampaignError: the campaign can no longer be read.
    """
    at: dict[str, float] = {}
    is_crowded = False
    if run_id:
        table = source.run_table(run_id)
        metric, rows = icicle_of_run(table) if table is not None else ("", [])
    else:
        coordinates = measured_coordinates(models)
        if not len(coordinates):
            return {"rows": []}
        target = fill_coordinate(models.parameters, coordinates.max(axis=0), fixed)
        at = dict(zip(models.parameters, target.tolist(), strict=True))
        metric, rows = predict_icicle(models, at)
        is_crowded = any(series.crowding for series in models.models)

    sites = source.sites() if rows else {}
    rows.sort(key=lambda row: -row.mean)
    return {
        "metric": metric,
        "unit": "s",
        "at": at,
        "is_crowded": is_crowded,
        "left_out": max(len(rows) - MAX_ROWS, 0),
        "rows": [
            [str(row.callpath), row.mean, row.low, row.high, _site_text(sites.get(row.callpath))]
            for row in rows[:MAX_ROWS]
        ],
        "sites": _caller_sites(sites, [row.callpath for row in rows[:MAX_ROWS]]),
    }


def _caller_sites(sites: Mapping[CallPath, Site], paths: list[CallPath]) -> dict[str, str]:
    """The sites of functions that have no row, but call others that have: by call path."""
    own = set(paths)
    texts = {}
    for path in paths:
        caller = path.parent
        while caller is not None and caller not in own and str(caller) not in texts:
            texts[str(caller)] = _site_text(sites.get(caller))
            caller = caller.parent

    return texts


def _site_text(site: Site | None) -> str:
    """`heat.py:21`; only the file where the line is unknown, "" where the file is unknown."""
    if site is None:
        return ""
    file, line = site
    name = file.rpartition("/")[2]
    return f"{name}:{line}" if line > 0 else name
