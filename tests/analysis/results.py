"""What views show of campaigns: everything that follows from models, for reference files.

    python -m tests.analysis.results      writes new reference files; check them with `git diff`

The campaigns are those of `diagnoses.py` that have all their models.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np

from insitu.analysis.board import Board, LiveRun, make_board
from insitu.analysis.class_costs import costs_along, costs_at, unclear_costs
from insitu.analysis.comparison import ComparedCampaign, compare_campaigns
from insitu.analysis.cost import cost_metric, measured_shares, shares_of_run
from insitu.analysis.detail import candidates, describe_claim, residuals
from insitu.analysis.deviation import find_deviations_from_models
from insitu.analysis.forecast import LivePath, compare_with_forecast, make_forecast
from insitu.analysis.icicle import icicle_of_run, predict_icicle
from insitu.analysis.node_boundary import node_boundary
from insitu.analysis.outlook import board_target, make_outlook, outlook_target
from insitu.analysis.predict import crowding_notes, extrapolation_notes, node_notes
from insitu.analysis.scaling import describe_line, measured_coordinates, shares_along
from insitu.analysis.summary import summarise, target_of_models
from insitu.analysis.whole_program import describe_rest, predict_run_time, sum_functions
from insitu.entities import TIME, TIME_EXCLUSIVE, VISITS, CallPath, RunKey, RunRecord, RunState
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.measurement import RunTable
from insitu.modeling.pipeline import remodel
from tests.analysis.diagnoses import (
    REFERENCES,
    MeasuredCampaign,
    load_kept,
    reference_text,
    shorten,
)

COMPARED = ("heat_simulated", "imported_follower")  # models of the others take seconds to fit
NAMES = ("heat_simulated", "imported_follower", "imported_grid", "imported_phases")


def reference_file(name: str) -> Path:
    """The file with the results that are expected."""
    return REFERENCES / f"{name}.results.json"


def describe_results(name: str) -> dict[str, object]:
    """What follows from the models of a campaign, as its reference file has it."""
    measured = load_kept(name)
    models, runs = measured.models, measured.experiment.runs
    key, table = runs[-1]
    target = target_of_models(models, {})
    largest = [float(value) for value in measured_coordinates(models)[-1]]
    metric = cost_metric(models)
    costs = costs_at(models, metric, target)
    axis = models.parameters[0]
    results = {
        "summary": summarise("title", measured.records, models),
        "outlook": make_outlook(models, outlook_target(models, {})),
        "outlook where it was measured": make_outlook(models, largest),
        "board": make_board(measured.records, models),
        "costs": costs,
        "unclear": unclear_costs(models, metric, costs, target),
        "costs along": costs_along(models, metric, np.array([largest, target])),
        "shares": [measured_shares(models), shares_of_run(table)],
        "shares along": shares_along(models, axis, 4 * largest[0], {}),
        "line": describe_line(
            models.parameters, measured_coordinates(models), np.array(largest), 0
        ),
        "icicle": [
            icicle_of_run(table),
            predict_icicle(models, dict(zip(models.parameters, target, strict=True))),
        ],
        "whole program": [
            sum_functions(models, target),
            predict_run_time(models, target),
            describe_rest(models),
        ],
        "notes": [
            extrapolation_notes([target], models.models),
            crowding_notes(models.models),
            node_notes([target], models.models, node_boundary(measured.records)),
        ],
        "forecast": describe_forecast(models, key, table),
        "deviations": [
            find_deviations_from_models(models, slow_down(table, factor), key)
            for factor in (1.0, 1.5, 0.5)
        ],
        "comparison": compare_with_changed(measured) if name in COMPARED else None,
        "models": [describe_model(series) for series in models.every_model()],
    }
    return {label: to_json(value) for label, value in results.items()}


def describe_forecast(models: ModelSet, key: RunKey, table: RunTable) -> list[object]:
    """The forecast of a run, and what a board shows of it at its middle and at its end."""
    forecast = make_forecast(models, key)
    shown: list[object] = [forecast]
    for share, is_over in ((0.5, False), (1.3, True)):
        paths = [live_path(table, path, share) for path in table.callpaths]
        paths.append(LivePath("main->new", 10.0, 0.25))
        size = key.size
        state = RunState.CLOSING if is_over else RunState.MEASURING
        classes = {str(table.callpaths[-1]): ((size - 1, 0.5), (1, 0.75))}
        live = LiveRun(
            "live", key, state, size, size * is_over, size, tuple(paths), classes=classes
        )
        board = make_board([], models, [live], {"live": forecast})
        shown += [compare_with_forecast(forecast, paths, size=size, has_ended=is_over), board]
        shown.append(board_target(board, {}))
    return shown


def live_path(table: RunTable, path: CallPath, share: float) -> LivePath:
    """A call path of a run of which a share is over."""
    row = table.callpaths.index(path)
    means = {
        metric.name: share * float(np.nan_to_num(table.values[metric.name][row]).mean())
        for metric in table.metrics
    }
    core = [means.pop(metric.name, 0.0) for metric in (VISITS, TIME, TIME_EXCLUSIVE)]
    return LivePath(str(path), *core, ranks=float(table.size), more=means)


def slow_down(table: RunTable, factor: float) -> RunTable:
    """A run whose values are larger by a factor."""
    return replace(table, values={name: factor * values for name, values in table.values.items()})


def compare_with_changed(measured: MeasuredCampaign) -> list[object]:
    """The campaign beside one with other times and counts, in both directions.

    Half of the ranks take longer in the first call path, all ranks in the second, and visits grow
    faster with p. The last call path is gone, and another one is new.
    """
    runs = []
    for key, table in measured.experiment.runs:
        values = {}
        for name, rows in table.values.items():
            changed = rows.copy()
            changed[0, : (table.size + 1) // 2] *= 1.5 if name == TIME_EXCLUSIVE.name else 1.0
            changed[1] *= 1.25 if name == TIME_EXCLUSIVE.name else 1.0
            changed[1] *= key.size if name == VISITS.name else 1.0
            values[name] = changed
        callpaths = (*table.callpaths[:-1], CallPath(("main", "new")))
        runs.append((key, replace(table, callpaths=callpaths, values=values)))
    experiment = replace(measured.experiment, runs=tuple(runs))
    before = ComparedCampaign(measured.experiment, measured.models)
    after = ComparedCampaign(experiment, remodel(experiment))
    return [compare_campaigns(before, after), compare_campaigns(after, before)]


def describe_model(series: SeriesModel) -> list[object]:
    """A model with the functions that compete for it."""
    model = series.model
    competing = [(str(function), share) for function, share in candidates(model)[:3]]
    return [series, competing, describe_claim(model), residuals(model)]


def to_json(value: object) -> object:
    """A value as lists, dicts, texts and numbers; what is empty is left out."""
    if isinstance(value, SeriesModel):
        return f"{value.key.callpath} {value.key.metric} {value.key.behaviour}: {value.text}"
    if isinstance(value, RunRecord | CallPath):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, Board):
        return to_json(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        items = ((key, to_json(entry)) for key, entry in value.items())
        return {_name_of(key): entry for key, entry in items if entry not in (None, [], {}, "")}
    if isinstance(value, list | tuple | frozenset | set):
        entries = sorted(value, key=str) if isinstance(value, frozenset | set) else value
        return [to_json(entry) for entry in entries]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return shorten(value)


def _name_of(key: object) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def write_reference(name: str) -> None:
    """Write the results of a campaign."""
    reference_file(name).write_text(reference_text(describe_results(name)), encoding="utf-8")


if __name__ == "__main__":
    for name in NAMES:
        write_reference(name)
