"""What there is to see of a campaign, as plain data."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from insitu.analysis.cost import measured_points, measured_shares, sort_by_cost
from insitu.analysis.forecast import (
    Forecast,
    ForecastComparison,
    Judgement,
    LivePath,
    compare_with_forecast,
)
from insitu.campaign.selection import is_omitted, select_runs
from insitu.entities import TIME, Finding, RunKey, RunRecord, RunState
from insitu.errors import WireError
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.preview import PREVIEW

MAX_ROWS = 1_000  # a board travels each beat; who wants all asks the campaign
MAX_SPANS = 256
AWAITED, MEASURING, SILENT = "awaited", "measuring", "silent"  # states of a rank
ENDED, FAILED, LOST = "ended", "failed", "lost"


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that is being measured.

    ranks: their states in order, as (state, how many); see `RunRow`.
    `classes` are (ranks, seconds) of the clusters of a call path, ascending, where they are known.
    """

    id: str
    key: RunKey
    state: RunState
    ranks_seen: int
    ranks_ended: int
    size: int
    callpaths: Sequence[LivePath] = ()
    started_at: float = 0.0
    ranks: tuple[tuple[str, int], ...] = ()
    classes: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run and how far its ranks are.

    ranks: their states in order, as (state, how many), empty where they change too often to be
    told: awaited, measuring, silent, ended, failed (by its exit code), lost. part: how far a run in
    progress is, 0 to 1, by the visits that models of other runs predict; None where nothing tells.
    parameters: (name, value) of what was set for it.
    """

    id: str
    name: str
    state: str
    size: int
    seen: int
    ended: int
    started_at: float = 0.0
    ended_at: float = 0.0
    missing: tuple[int, ...] = ()
    ranks: tuple[tuple[str, int], ...] = ()
    part: float | None = None
    parameters: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """A metric of a call path in a class: its share of the cost, its points and its growing model.

    `points` are (coordinate, mean over repetitions); `live` is the value in the newest live run;
    `text`, `smape` are empty and None before there is a model; a text that begins with `preview:`
    is that of a model which follows the newest run until it is made anew. `expected` is what models
    of other runs let expect of a mean rank by now (low, value, high), `verdict` a word where `live`
    is outside of that: the same for all classes of a call path.
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
    expected: tuple[float, float, float] | None = None
    verdict: str = ""


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
                    RunRow(
                        **run
                        | {
                            "missing": tuple(run["missing"]),
                            "ranks": tuple((state, many) for state, many in run["ranks"]),
                            "parameters": tuple((name, at) for name, at in run["parameters"]),
                        }
                    )
                    for run in data["runs"]
                ),
                series=tuple(
                    SeriesRow(
                        **row
                        | {
                            "points": tuple((tuple(at), y) for at, y in row["points"]),
                            "expected": row["expected"] and tuple(row["expected"]),
                        }
                    )
                    for row in data["series"]
                ),
                findings=tuple(Finding(**finding) for finding in data["findings"]),
                omitted=int(data["omitted"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(
                f"not a board that this insitu reads ({error!r}); use one version on both sides"
            ) from error


def make_board(
    runs: Sequence[RunRecord],
    models: ModelSet,
    live: Sequence[LiveRun] = (),
    foreseen: Mapping[str, Forecast] | None = None,
) -> Board:
    """Put together what there is to see, newest runs first.

    Args:
        runs: those kept in the campaign, in their order.
        models: what has been modelled so far.
        live: those being measured now; one that is also in `runs` is shown as kept.
        foreseen: what models predict for runs being measured, by the id of the run.
    """
    kept = {run.id for run in runs}
    going = [run for run in live if run.id not in kept]
    courses = {run.id: _course(run, (foreseen or {}).get(run.id, Forecast())) for run in going}
    rows = [_live_run(run, courses[run.id].part) for run in reversed(going)]
    rows += [_run(run) for run in reversed(runs)]
    series = _series(models, going, courses[going[-1].id].judged if going else {})
    return Board(
        parameters=tuple(models.parameters),
        runs=tuple(rows),
        series=tuple(series[:MAX_ROWS]),
        findings=_findings(runs, models),
        omitted=max(len(series) - MAX_ROWS, 0),
    )


def _findings(runs: Sequence[RunRecord], models: ModelSet) -> tuple[Finding, ...]:
    _, left_out = select_runs(runs)
    of_runs = [finding for run in reversed(runs) for finding in run.findings]
    return tuple(dict.fromkeys([*of_runs, *left_out, *models.findings]))


def count_rank_states(states: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """The states of ranks in order as (state, how many); empty where they change too often."""
    spans = tuple((state, len(list(same))) for state, same in groupby(states))
    return spans if len(spans) <= MAX_SPANS else ()


def _course(run: LiveRun, foreseen: Forecast) -> ForecastComparison:
    has_ended = 0 < run.size == run.ranks_ended
    return compare_with_forecast(foreseen, run.callpaths, size=run.size, has_ended=has_ended)


def _live_run(run: LiveRun, part: float) -> RunRow:
    return RunRow(
        run.id,
        str(run.key),
        run.state.value,
        run.size,
        run.ranks_seen,
        run.ranks_ended,
        run.started_at,
        ranks=run.ranks,
        part=_finite(part),
        parameters=run.key.parameters,
    )


def _run(run: RunRecord) -> RunRow:
    size = run.key.size
    ended = size - len(run.missing)
    missing = set(run.missing)
    return RunRow(
        run.id,
        str(run.key),
        "omitted" if is_omitted(run) else run.state.value,
        size,
        ended,
        ended,
        run.started_at,
        run.ended_at,
        run.missing,
        count_rank_states(
            LOST
            if rank in missing
            else FAILED
            if run.exit_status[rank : rank + 1] > (0,)
            else ENDED
            for rank in range(size)
        ),
        parameters=run.key.parameters,
    )


def _series(
    models: ModelSet,
    live: Sequence[LiveRun],
    judged: Mapping[tuple[str, str], Judgement],
) -> list[SeriesRow]:
    """Modelled series by cost; call paths that only the live run has seen follow, by time."""
    now = {one.callpath: one for one in live[-1].callpaths} if live else {}
    share = measured_shares(models)
    rows = []
    for series in sort_by_cost(models, share):
        key = str(series.key.callpath), series.key.metric
        value = now[key[0]].values().get(key[1]) if key[0] in now else None
        rows.append(_row(series, share.get(series.key.callpath, 0.0), value, judged.get(key)))
    known = {row.callpath for row in rows}  # shares of the others cannot be told beside theirs
    longest = max((one.seconds for one in now.values() if math.isfinite(one.seconds)), default=0.0)
    fresh = [one for one in now.values() if one.callpath not in known]
    for one in sorted(fresh, key=lambda one: -one.seconds):
        part = 0.0 if known or not longest > 0 else one.seconds / longest
        seconds = _finite(one.seconds)
        rows.append(SeriesRow(one.callpath, TIME.name, TIME.unit, "all", part, live=seconds))
    return _with_classes(rows, live[-1].classes if live else {})


def _with_classes(
    rows: list[SeriesRow], classes: Mapping[str, Sequence[tuple[int, float]]]
) -> list[SeriesRow]:
    """What the ranks of a live run part into, below the last row of the time of its call path."""
    last = {row.callpath: i for i, row in enumerate(rows) if row.metric == TIME.name}
    shown = []
    for i, row in enumerate(rows):
        shown.append(row)
        parts = classes.get(row.callpath, ()) if last.get(row.callpath) == i else ()
        for number, (ranks, seconds) in enumerate(parts, 1):
            name = f"now {number}/{len(parts)}: {ranks:,} rank{'s' if ranks > 1 else ''}"
            part = replace(row, behaviour=name, text="", smape=None, points=(), live=seconds)
            shown.append(replace(part, expected=None, verdict=""))  # those are of a mean rank
    return shown


def _row(
    series: SeriesModel, share: float, live: float | None, judged: Judgement | None
) -> SeriesRow:
    model = series.model
    due = None if judged is None else judged.expected
    return SeriesRow(
        callpath=str(series.key.callpath),
        metric=series.key.metric,
        unit=series.metric.unit,
        behaviour=series.key.behaviour,
        share=share,
        text="preview: " * (PREVIEW in {one.code for one in model.findings}) + str(model),
        smape=_finite(model.quality.smape),
        points=tuple(measured_points(model)),
        live=None if live is None else _finite(live),
        expected=None if due is None or math.isnan(due.low) else (due.low, due.value, due.high),
        verdict="" if judged is None else judged.verdict,
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
