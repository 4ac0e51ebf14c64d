"""Selecting series of a campaign: by call path, metric and cost; why nothing can be selected."""

import fnmatch
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from insitu.analysis.cost import cost_metric, metric_order, sort_by_cost
from insitu.campaign.selection import select_runs
from insitu.campaign.store import SqliteStore
from insitu.entities import (
    ARROW,
    BYTES_SENT,
    CPU_TIME,
    HEAP_GROWTH,
    ITERATION_TIME,
    MEMORY_RSS,
    MESSAGES_RECEIVED,
    MESSAGES_SENT,
    METRICS,
    TIME,
    TIME_EXCLUSIVE,
    TIME_WAITING,
    VISITS,
    CallPath,
    Finding,
    is_start_up,
)
from insitu.errors import CampaignError, UsageError
from insitu.modeling.base import ALL, MAXIMUM, ModelSet, SeriesModel
from insitu.modeling.classes.supplements import WHOLE_RUN
from insitu.modeling.measurement import SeriesKey
from insitu.modeling.search import TOO_FEW_POINTS

NOTABLE_MAXIMUM = 1.1  # least ratio to the mean at which an overview lists a maximum over ranks
NO_MODEL = (TOO_FEW_POINTS, "not-modelled")  # findings that say why a series has no model
HEADLINES = frozenset(  # metrics that an overview shows
    metric.name
    for metric in (
        TIME,
        TIME_EXCLUSIVE,
        TIME_WAITING,
        CPU_TIME,
        BYTES_SENT,
        MEMORY_RSS,
        ITERATION_TIME,
    )
)
# Besides, where all times contain waiting for a core: these hold however busy the machine was.
EXACT_HEADLINES = frozenset(
    metric.name for metric in (VISITS, MESSAGES_SENT, MESSAGES_RECEIVED, HEAP_GROWTH)
)
_OWN_METRICS = frozenset(metric.name for metric in METRICS)


@dataclass(frozen=True, slots=True)
class SeriesFilter:
    """Which series to select.

    Attributes:
        callpath: select only call paths that contain this text or match it with * and ?.
        metric: select only this metric.
        limit: select only this many call paths, the most expensive first; 0 selects all.
        is_overview: select only the metrics of an overview, see `is_headline`. It has no effect
            together with a call path or a metric.
    """

    callpath: str | None = None
    metric: str | None = None
    limit: int = 0
    is_overview: bool = False

    def accepts(self, key: SeriesKey) -> bool:
        """Whether the call path and the metric of a series pass this filter."""
        if self.metric is not None and key.metric != self.metric:
            return False
        return self.callpath is None or matches_pattern(str(key.callpath), self.callpath)


EVERY_SERIES = SeriesFilter()


@dataclass(frozen=True, slots=True)
class SeriesSelection:
    """Series that passed a filter, those of the most expensive call path first.

    Attributes:
        series: the selected models.
        share: share of each call path in the cost, 0 to 1.
        callpaths: the call paths within the limit.
        hidden_callpaths: how many call paths are beyond the limit.
        hidden_start_up: their share of start-up (imports, MPI_Init) in the time.
        hidden_metrics: metrics of these call paths that the overview leaves out.
    """

    series: tuple[SeriesModel, ...] = ()
    share: Mapping[CallPath, float] = field(default_factory=dict)
    callpaths: frozenset[CallPath] = frozenset()
    hidden_callpaths: int = 0
    hidden_start_up: float = 0.0
    hidden_metrics: tuple[str, ...] = ()


def select_series(
    models: ModelSet, share: Mapping[CallPath, float], series_filter: SeriesFilter
) -> SeriesSelection:
    """Select models by call path, metric and cost; start-up comes last.

    An overview leaves out maxima over ranks that are near the mean. The whole run is no call path:
    the limit does not count it.

    Raises:
        UsageError: there are models, but none passes the filter.
    """
    rows = models.every_model()
    is_overview = series_filter.is_overview
    is_overview = is_overview and (series_filter.metric, series_filter.callpath) == (None, None)
    if is_overview:
        rows = _without_expected_maxima(rows)
    if any(entry.key.callpath == WHOLE_RUN for entry in rows):
        share = {**share, WHOLE_RUN: 1.0}

    accepted = [entry for entry in sort_by_cost(rows, share) if series_filter.accepts(entry.key)]
    if models.models and not accepted:
        raise no_match_error((entry.key.metric for entry in models.models), series_filter)

    callpaths, hidden_callpaths = limit_callpaths(
        (entry.key.callpath for entry in accepted if entry.key.callpath != WHOLE_RUN),
        series_filter.limit,
    )
    hidden_start_up = 0.0
    if cost_metric(models) == TIME_EXCLUSIVE.name:  # inclusive times contain each other
        hidden = {entry.key.callpath for entry in accepted} - callpaths
        hidden_start_up = sum(share.get(path, 0.0) for path in hidden if is_start_up(path))
    callpaths.add(WHOLE_RUN)
    series = [entry for entry in accepted if entry.key.callpath in callpaths]

    hidden_metrics: set[str] = set()
    if is_overview:
        texts = [(str(entry.key.callpath), entry.key.metric, str(entry.model)) for entry in series]
        timed = [entry for entry in series if entry.key.metric in (TIME.name, TIME_EXCLUSIVE.name)]
        is_crowded = bool(timed) and all(entry.crowding for entry in timed)
        flags = headline_rows(texts, is_crowded=is_crowded)
        headlines = [entry for entry, is_shown in zip(series, flags, strict=True) if is_shown]
        hidden_metrics = {metric for _, metric, _ in texts}
        hidden_metrics -= {entry.key.metric for entry in headlines}
        # Exact counts before times that contain waiting for a core, below each call path.
        paths = dict.fromkeys(entry.key.callpath for entry in headlines)
        order = {path: index for index, path in enumerate(paths)}
        series = sorted(
            headlines, key=lambda entry: (order[entry.key.callpath], bool(entry.crowding))
        )

    return SeriesSelection(
        tuple(series),
        share,
        frozenset(callpaths),
        hidden_callpaths=hidden_callpaths,
        hidden_start_up=hidden_start_up,
        hidden_metrics=tuple(sorted(hidden_metrics, key=metric_order)),
    )


def _without_expected_maxima(rows: Sequence[SeriesModel]) -> list[SeriesModel]:
    """Leave out the maxima that are near the mean, and those of series whose classes are listed."""
    means: dict[tuple[CallPath, str], float] = {}
    divided: set[tuple[CallPath, str]] = set()
    for entry in rows:
        series = entry.key.callpath, entry.key.metric
        if entry.key.behaviour == ALL:
            means[series] = float(entry.model.values[-1])
        elif entry.key.behaviour != MAXIMUM:
            divided.add(series)

    shown = []
    for entry in rows:
        series = entry.key.callpath, entry.key.metric
        if entry.key.behaviour == MAXIMUM and entry.key.callpath != WHOLE_RUN:
            is_near = entry.model.values[-1] < NOTABLE_MAXIMUM * means.get(series, 0.0)
            if is_near or series in divided:
                continue
        shown.append(entry)
    return shown


def matches_pattern(text: str, pattern: str) -> bool:
    """Whether a call path contains a pattern literally, or matches it with * and ?."""
    return pattern in text or fnmatch.fnmatchcase(text, pattern)


def limit_callpaths(callpaths: Iterable[CallPath], limit: int) -> tuple[set[CallPath], int]:
    """Return the first `limit` distinct call paths (0: all), and how many are left out."""
    distinct = list(dict.fromkeys(callpaths))
    selected = set(distinct[:limit] if limit else distinct)
    return selected, len(distinct) - len(selected)


def headline_rows(rows: Sequence[tuple[str, str, str]], *, is_crowded: bool = False) -> list[bool]:
    """Return which rows belong into an overview.

    An overview shows the headline metrics that are not zero, and every metric that another tool
    measured. It shows exclusive time only for call paths that call others or have no inclusive
    time. If nothing is left, it shows every row.

    Args:
        rows: call path, metric and model of each row, as texts.
        is_crowded: whether all times contain waiting for a core: exact counts are shown, too.
    """
    headlines = HEADLINES | EXACT_HEADLINES if is_crowded else HEADLINES
    callers = {path.rpartition(ARROW)[0] for path, _, _ in rows}
    timed = {path for path, metric, _ in rows if metric == TIME.name}

    flags = []
    for path, metric, model in rows:
        is_headline = metric in headlines or metric not in _OWN_METRICS
        is_redundant = metric == TIME_EXCLUSIVE.name and path not in callers and path in timed
        flags.append(is_headline and model != "0" and not is_redundant)
    return flags if any(flags) else [True] * len(rows)


def no_match_error(metrics: Iterable[str], series_filter: SeriesFilter) -> UsageError:
    """Return an error that names the option that matched nothing, and what is available.

    Args:
        metrics: the metrics that are available.
        series_filter: the filter that no series passed.
    """
    available = sorted(set(metrics))
    metric, callpath = series_filter.metric, series_filter.callpath

    if metric is not None and metric not in available:
        similar = get_close_matches(metric, available, 1)
        hint = f"did you mean {similar[0]}? Available" if similar else "available"
        return UsageError(f"no metric '{metric}' here; {hint}: {', '.join(available)}")
    having = f" and has {metric}" if metric is not None and callpath is not None else ""
    return UsageError(
        f"no call path matches --callpath {callpath or '*'}{having};"
        " `insitu models CAMPAIGN --top 0` lists all"
    )


def findings_about(models: ModelSet, callpaths: Container[CallPath]) -> list[Finding]:
    """Return the findings about these call paths, and those about no call path."""
    hidden = {
        str(clusters.callpath) for clusters in models.clusters if clusters.callpath not in callpaths
    }
    return [finding for finding in models.findings if finding.where not in hidden]


def load_models(store: SqliteStore) -> ModelSet:
    """Load the models of a campaign.

    Raises:
        CampaignError: the campaign has no models; the message contains the reason and what to do.
    """
    models = store.models()
    if not models.models:
        raise CampaignError(explain_missing_models(store, models))
    return models


def explain_missing_models(store: SqliteStore, models: ModelSet) -> str:
    """Return why a campaign has no models and what to do; empty if it has models."""
    if models.models:
        return ""
    runs, _ = select_runs(store.runs())
    if not runs:
        return (
            f"{store.path}: no complete run yet; measure one with"
            f" `insitu run --campaign {store.path} -- COMMAND`"
        )
    reasons = [finding.text for finding in models.findings if finding.code in NO_MODEL]
    advice = f"fit them with `insitu refit {store.path}`"
    return f"{store.path}: no models: {reasons[0] if reasons else advice}"
