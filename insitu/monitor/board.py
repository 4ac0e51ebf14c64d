"""What there is to see of a campaign, as plain data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from insitu.campaign.load import joined
from insitu.entities import TIME, Finding, RunKey, RunRecord, RunState
from insitu.errors import WireError
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.preview import PREVIEW
from insitu.monitor.cost import by_cost, measured, shares

MAX_ROWS = 1_000  # a board travels each beat; who wants all asks the campaign


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that is being measured; `callpaths` are (path, visits, seconds), means over ranks."""

    id: str
    key: RunKey
    state: RunState
    ranks_seen: int
    ranks_ended: int
    size: int
    callpaths: Sequence[tuple[str, float, float]] = ()


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run and how far its ranks are."""

    id: str
    name: str
    state: str
    size: int
    seen: int
    ended: int
    started_at: float = 0.0
    ended_at: float = 0.0
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """A metric of a call path in a class: its share of the cost, its points and its growing model.

    `points` are (coordinate, mean over repetitions); `live` is the value in the newest live run;
    `text`, `smape` are empty and None before there is a model; a text that begins with `preview:`
    is that of a model which follows the newest run until it is made anew.
    """

    callpath: str
    metric: str
    unit: str
    behaviour: str
    share: float
    text: str = ""
    smape: float | None = None
    points: tuple[tuple[tuple[float, ...], float], ...] = ()
    live: float | None = None


@dataclass(frozen=True, slots=True)
class Board:
    """Runs, series by cost, findings; `omitted` series were too many to show."""

    parameters: tuple[str, ...] = ()
    runs: tuple[RunRow, ...] = ()
    series: tuple[SeriesRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    omitted: int = 0

    def to_dict(self) -> dict[str, Any]:  # Any: JSON
        """A form that JSON can hold; there is no NaN in it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Board":
        """Read what `to_dict` wrote, also after a journey through JSON.

        Raises:
            WireError: it is no board, or one of another version.
        """
        try:
            return cls(
                parameters=tuple(data["parameters"]),
                runs=tuple(
                    RunRow(**run | {"missing": tuple(run["missing"])}) for run in data["runs"]
                ),
                series=tuple(
                    SeriesRow(**row | {"points": tuple((tuple(at), y) for at, y in row["points"])})
                    for row in data["series"]
                ),
                findings=tuple(Finding(**finding) for finding in data["findings"]),
                omitted=int(data["omitted"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(
                f"not a board that this insitu reads ({error!r}); use one version on both sides"
            ) from error


def board_of(runs: Sequence[RunRecord], models: ModelSet, live: Sequence[LiveRun] = ()) -> Board:
    """Put together what there is to see, newest runs first.

    Args:
        runs: those kept in the campaign, in their order.
        models: what has been modelled so far.
        live: those being measured now; one that is also in `runs` is shown as kept.
    """
    kept = {run.id for run in runs}
    going = [run for run in live if run.id not in kept]
    rows = [_live_run(run) for run in reversed(going)] + [_run(run) for run in reversed(runs)]
    series = _series(models, going)
    return Board(
        parameters=tuple(models.parameters),
        runs=tuple(rows),
        series=tuple(series[:MAX_ROWS]),
        findings=_findings(runs, models),
        omitted=max(len(series) - MAX_ROWS, 0),
    )


def _findings(runs: Sequence[RunRecord], models: ModelSet) -> tuple[Finding, ...]:
    _, left_out = joined(runs)
    of_runs = [finding for run in reversed(runs) for finding in run.findings]
    return tuple(dict.fromkeys([*of_runs, *left_out, *models.findings]))


def _live_run(run: LiveRun) -> RunRow:
    return RunRow(run.id, str(run.key), run.state.value, run.size, run.ranks_seen, run.ranks_ended)


def _run(run: RunRecord) -> RunRow:
    size = run.key.size
    ended = size - len(run.missing)
    return RunRow(
        run.id,
        str(run.key),
        run.state.value,
        size,
        ended,
        ended,
        run.started_at,
        run.ended_at,
        run.missing,
    )


def _series(models: ModelSet, live: Sequence[LiveRun]) -> list[SeriesRow]:
    """Modelled series by cost; call paths that only the live run has seen follow, by time."""
    now = {path: seconds for path, _, seconds in live[-1].callpaths} if live else {}
    share = shares(models)
    rows = []
    for series in by_cost(models, share):
        seconds = now.get(str(series.key.callpath)) if series.key.metric == TIME.name else None
        rows.append(_row(series, share.get(series.key.callpath, 0.0), seconds))
    known = {row.callpath for row in rows}  # shares of the others cannot be told beside theirs
    longest = max((seconds for seconds in now.values() if math.isfinite(seconds)), default=0.0)
    fresh = sorted((item for item in now.items() if item[0] not in known), key=lambda i: -i[1])
    for path, seconds in fresh:
        part = 0.0 if known or not longest > 0 else seconds / longest
        rows.append(SeriesRow(path, TIME.name, TIME.unit, "all", part, live=_finite(seconds)))
    return rows


def _row(series: SeriesModel, share: float, live: float | None) -> SeriesRow:
    model = series.model
    return SeriesRow(
        callpath=str(series.key.callpath),
        metric=series.key.metric,
        unit=series.metric.unit,
        behaviour=series.key.behaviour,
        share=share,
        text="preview: " * (PREVIEW in {one.code for one in model.findings}) + str(model),
        smape=_finite(model.quality.smape),
        points=tuple(measured(model)),
        live=None if live is None else _finite(live),
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
