"""The board: everything the views show of a campaign, as plain data."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from insitu.analysis.cost import measured_points, measured_shares, sort_by_cost
from insitu.analysis.forecast import (
    Forecast,
    Judgement,
    LivePath,
    PathMetric,
    compare_with_forecast,
)
from insitu.campaign.selection import describe_run_findings, is_omitted, select_runs
from insitu.entities import (
    MEMORY_RSS,
    STATUS_UNKNOWN,
    TIME,
    Finding,
    RunKey,
    RunRecord,
    RunState,
    finite,
)
from insitu.errors import WireError
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.preview import PREVIEW

MAX_ROWS = 1_000  # a board is sent with each update; the campaign has all series
MAX_SPANS = 256
MAX_FAILURES = 8  # failed ranks whose exit status a board has
AWAITED, MEASURING, SILENT = "awaited", "measuring", "silent"  # states of a rank
ENDED, FAILED, LOST = "ended", "failed", "lost"


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that is being measured.

    ranks: their states in order, as (state, number of ranks); see `RunRow`. classes: per call path
    (ranks, seconds) of its clusters, ascending, where they are known.
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
    """A run and the states of its ranks. The names of the fields are keys of the JSON.

    ranks: (state, number of ranks), in the order of the ranks; empty if there are more than
    MAX_SPANS of these. The states are awaited, measuring, silent, ended, failed (by its exit code)
    and lost. part: progress of a run that is being measured, 0 to 1, by the visits that models of
    other runs predict; None where it is unknown. parameters: (name, value). host, command: as the
    agents reported them. failures: (rank, status) of the first MAX_FAILURES ranks that failed: an
    exit code, minus a signal, or STATUS_UNKNOWN. memory: resident bytes of a mean rank of a run in
    progress, None where they are unknown.
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
    host: str = ""
    command: str = ""
    failures: tuple[tuple[int, int], ...] = ()
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """A metric of a call path in a class, with its model. The field names are keys of the JSON.

    share: of the call path in the cost; text, smape: "" and None without a model, a text that
    begins with `preview:` belongs to a model that was updated without a refit; points: (coordinate,
    median over repetitions); live: the value in the newest live run; expected: (low, value, high)
    of a mean rank by now, as models of other runs predict; verdict: a word where `live` is outside
    of these bounds. Both are the same for all classes of a call path. class_text: the class as it
    is shown, `rank 0 only` for all of the ranks of a call path that others do not execute.
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
    class_text: str = ""

    @property
    def shown_class(self) -> str:
        """The class as it is shown."""
        return self.class_text or self.behaviour


@dataclass(frozen=True, slots=True)
class Board:
    """Runs, series by cost, findings; omitted: number of series beyond MAX_ROWS."""

    parameters: tuple[str, ...] = ()
    runs: tuple[RunRow, ...] = ()
    series: tuple[SeriesRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    omitted: int = 0

    def to_dict(self) -> dict[str, Any]:  # Any: JSON
        """The board as JSON data, without NaN."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Board":
        """Read what `to_dict` wrote, also after it was JSON.

        Raises:
            WireError: it is no board, or a board of another version.
        """
        try:
            return cls(
                parameters=tuple(data["parameters"]),
                runs=tuple(_read_run(run) for run in data["runs"]),
                series=tuple(_read_series(row) for row in data["series"]),
                findings=tuple(Finding(**finding) for finding in data["findings"]),
                omitted=int(data["omitted"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(
                f"cannot read the board ({error!r}); use the same version of insitu on both sides"
            ) from error


def _read_run(run: Mapping[str, Any]) -> RunRow:  # Any: JSON
    tuples = {
        "missing": tuple(run["missing"]),
        "ranks": tuple((state, count) for state, count in run["ranks"]),
        "parameters": tuple((name, value) for name, value in run["parameters"]),
        "failures": tuple((rank, status) for rank, status in run.get("failures", ())),
    }
    return RunRow(**{**run, **tuples})


def _read_series(row: Mapping[str, Any]) -> SeriesRow:  # Any: JSON
    tuples = {
        "points": tuple((tuple(at), y) for at, y in row["points"]),
        "expected": row["expected"] and tuple(row["expected"]),
    }
    return SeriesRow(**{**row, **tuples})


def make_board(
    runs: Sequence[RunRecord],
    models: ModelSet,
    live: Sequence[LiveRun] = (),
    forecasts: Mapping[str, Forecast] | None = None,
) -> Board:
    """Build the board, newest runs first.

    Args:
        runs: those stored in the campaign, in their order.
        models: the latest models.
        live: runs that are being measured; one that is also in `runs` is shown as stored.
        forecasts: of the runs that are being measured, by the id of the run.
    """
    stored = {run.id for run in runs}
    in_progress = [run for run in live if run.id not in stored]
    comparisons = {}
    for run in in_progress:
        forecast = (forecasts or {}).get(run.id, Forecast())
        has_ended = 0 < run.size == run.ranks_ended
        comparisons[run.id] = compare_with_forecast(
            forecast, run.callpaths, size=run.size, has_ended=has_ended
        )

    rows = [_live_row(run, comparisons[run.id].progress) for run in reversed(in_progress)]
    rows += [stored_row(run) for run in reversed(runs)]

    newest = in_progress[-1] if in_progress else None
    judgements = comparisons[newest.id].judgements if newest else {}
    series = _series_rows(models, newest, judgements)
    return Board(
        parameters=tuple(models.parameters),
        runs=tuple(rows),
        series=tuple(series[:MAX_ROWS]),
        findings=_findings(runs, models),
        omitted=max(len(series) - MAX_ROWS, 0),
    )


def _findings(runs: Sequence[RunRecord], models: ModelSet) -> tuple[Finding, ...]:
    _, not_joined = select_runs(runs)
    run_findings = describe_run_findings(list(reversed(runs)))
    return tuple(dict.fromkeys([*run_findings, *not_joined, *models.findings]))


def count_rank_states(states: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Consecutive equal states as (state, number); empty if there are more than MAX_SPANS."""
    spans = tuple((state, len(list(group))) for state, group in groupby(states))
    return spans if len(spans) <= MAX_SPANS else ()


def _live_row(run: LiveRun, progress: float) -> RunRow:
    return RunRow(
        id=run.id,
        name=str(run.key),
        state=run.state.value,
        size=run.size,
        seen=run.ranks_seen,
        ended=run.ranks_ended,
        started_at=run.started_at,
        ranks=run.ranks,
        part=finite(progress),
        parameters=run.key.parameters,
        memory=_resident_memory(run),
    )


def _resident_memory(run: LiveRun) -> float | None:
    """The resident memory of a mean rank: a gauge of the rank, whichever call path reports it."""
    values = [path.more[MEMORY_RSS.name] for path in run.callpaths if MEMORY_RSS.name in path.more]
    return max(filter(math.isfinite, values), default=None)


def stored_row(run: RunRecord) -> RunRow:
    """The row of a run that the campaign contains."""
    size = run.key.size
    ended = size - len(run.missing)
    return RunRow(
        id=run.id,
        name=str(run.key),
        state="omitted" if is_omitted(run) else run.state.value,
        size=size,
        seen=ended,
        ended=ended,
        started_at=run.started_at,
        ended_at=run.ended_at,
        missing=run.missing,
        ranks=count_rank_states(_final_states(run)),
        parameters=run.key.parameters,
        host=run.configuration.get("host"),
        command=run.configuration.get("command"),
        failures=_failures(run),
    )


def _failures(run: RunRecord) -> tuple[tuple[int, int], ...]:
    """The first ranks that failed, with their status."""
    failed = [(rank, status) for rank, status in enumerate(run.exit_status) if status != 0]
    return tuple(failed[:MAX_FAILURES])


def _final_states(run: RunRecord) -> Iterator[str]:
    """The state in which each rank of a stored run ended."""
    missing = set(run.missing)
    for rank in range(run.key.size):
        status = run.exit_status[rank] if rank < len(run.exit_status) else 0
        if rank in missing or status == STATUS_UNKNOWN:
            yield LOST
        elif status != 0:
            yield FAILED
        else:
            yield ENDED


def _series_rows(
    models: ModelSet,
    live: LiveRun | None,
    judgements: Mapping[PathMetric, Judgement],
) -> list[SeriesRow]:
    """Modelled series by cost, then call paths that only the live run has, by time."""
    live_paths = {path.callpath: path for path in live.callpaths} if live else {}
    share = measured_shares(models)

    rows = []
    for series in sort_by_cost(models.models, share):
        callpath, metric = str(series.key.callpath), series.key.metric
        live_path = live_paths.get(callpath)
        value = None if live_path is None else live_path.values().get(metric)
        judgement = judgements.get((callpath, metric))
        rows.append(_series_row(series, share.get(series.key.callpath, 0.0), value, judgement))

    rows += _new_rows(live_paths, {row.callpath for row in rows})
    return _with_classes(rows, live.classes if live else {})


def _new_rows(live_paths: Mapping[str, LivePath], modelled: Set[str]) -> list[SeriesRow]:
    """Call paths of the live run without a model, those with the largest times first.

    Their shares of the largest time are comparable only if no call path has a model.
    """
    times = [path.seconds for path in live_paths.values() if math.isfinite(path.seconds)]
    longest = max(times, default=0.0)
    new = [path for path in live_paths.values() if path.callpath not in modelled]
    has_shares = not modelled and longest > 0

    rows = []
    for path in sorted(new, key=lambda path: -path.seconds):
        row = SeriesRow(
            callpath=path.callpath,
            metric=TIME.name,
            unit=TIME.unit,
            behaviour="all",
            share=path.seconds / longest if has_shares else 0.0,
            live=finite(path.seconds),
        )
        rows.append(row)

    return rows


def _with_classes(
    rows: list[SeriesRow], classes: Mapping[str, Sequence[tuple[int, float]]]
) -> list[SeriesRow]:
    """Add the clusters of a live run below the last row of the time of each call path."""
    last_row = {row.callpath: index for index, row in enumerate(rows) if row.metric == TIME.name}

    result = []
    for index, row in enumerate(rows):
        result.append(row)
        clusters = classes.get(row.callpath, ()) if last_row.get(row.callpath) == index else ()
        for number, (ranks, seconds) in enumerate(clusters, 1):
            name = f"now {number}/{len(clusters)}: {ranks:,} rank{'s' if ranks > 1 else ''}"
            cluster_row = replace(
                row,
                behaviour=name,
                text="",
                smape=None,
                points=(),
                live=seconds,
                expected=None,  # this and the verdict are those of a mean rank
                verdict="",
                class_text="",
            )
            result.append(cluster_row)

    return result


def _series_row(
    series: SeriesModel, share: float, live: float | None, judgement: Judgement | None
) -> SeriesRow:
    model = series.model
    is_preview = any(finding.code == PREVIEW for finding in model.findings)
    expected = None
    if judgement is not None and not math.isnan(judgement.expected.low):
        bounds = judgement.expected
        expected = (bounds.low, bounds.value, bounds.high)

    return SeriesRow(
        callpath=str(series.key.callpath),
        metric=series.key.metric,
        unit=series.metric.unit,
        behaviour=series.key.behaviour,
        share=share,
        text=f"preview: {series.text}" if is_preview else series.text,
        smape=finite(model.quality.smape),
        points=tuple(measured_points(model)),
        live=None if live is None else finite(live),
        expected=expected,
        verdict="" if judgement is None else judgement.verdict,
        class_text="" if series.class_text == series.key.behaviour else series.class_text,
    )
