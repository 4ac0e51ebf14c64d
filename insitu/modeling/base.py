"""Modelers, the models that they make, and the model set of a campaign."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from insitu.entities import CallPath, Finding, Metric, RunKey, finite, number
from insitu.errors import ModelingError
from insitu.modeling.doubt import describe_domain, find_domain, no_evidence
from insitu.modeling.intervals import SpreadPoints, find_intervals
from insitu.modeling.measurement import FloatArray, IntArray, SeriesKey
from insitu.modeling.pmnf import Function, columns
from insitu.modeling.series import Series
from insitu.modeling.spread import Spread

Exponents = tuple[Fraction, Fraction]  # alpha, beta of x^alpha * log2(x)^beta

CROWDED = "ranks-crowded"  # the finding of runs, and of models of times, that waited for cores
FEW_RANKS = "few-ranks"  # the finding of models whose call path one rank or few ranks execute
MEAN_LAW = "mean-law"  # the finding of a class whose law is that of the mean over all ranks
ALL = "all"  # the class of all ranks, whose value is their mean
MAXIMUM = "maximum"  # stands for a class: the largest value of any rank
_QUALITY = ("smape", "adjusted_r2", "rss")  # the fields of Quality
MAX_DOUBLINGS_BEYOND = 20.0  # outside the measured coordinates; more do not widen an interval


class Segment(NamedTuple):
    """A function and where it applies; bounds are values of the parameter, infinite at the ends.

    Between two segments lies a gap in which behaviour changes; see `Model.change_points`.
    """

    lower: float
    upper: float
    function: Function


class ChangePoint(NamedTuple):
    """The gap between two segments: behaviour changes after `low` and by `high` at the latest."""

    low: float
    high: float


class BackTest(NamedTuple):
    """What a model of the smaller scales alone would have predicted for the largest, `at`."""

    at: float
    predicted: float
    measured: float


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a model fits the points it was made from.

    smape: in percent. adjusted_r2: NaN if it is not defined, because the values do not differ.
    rss: in the square of the unit of the values.
    """

    smape: float
    adjusted_r2: float
    rss: float = float("nan")


class Modeler(Protocol):
    """Fits models to series; pure, so the same series give the same models."""

    name: str
    min_points: int
    shares_noise: bool  # whether the model of a series depends on the other series of its metric

    def fit(self, series: Series) -> list["Model"]:
        """Fit all series at once, and return one model per series, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The model of a series: one or more segments, and the points that they were fitted to.

    modeler: its name. coordinates: (n_points, n_parameters). values: (n_points,), repetitions
    reduced to one value. spreads: one per segment, empty if the modeler does not quantify
    uncertainty. probability: posterior of the exponents of the leading term at four times the
    largest coordinate, NaN if unknown. change_probabilities: one per change point. back_tests:
    without the largest scale, and without several of the largest; empty where that was not tested.
    depends_on: the parameters that it depends on, if that is known; else empty.
    """

    parameters: tuple[str, ...]
    segments: tuple[Segment, ...]
    quality: Quality
    modeler: str
    coordinates: FloatArray
    values: FloatArray
    change_points: tuple[ChangePoint, ...] = ()
    spreads: tuple[Spread, ...] = ()
    probability: float = float("nan")
    change_probabilities: tuple[float, ...] = ()
    findings: tuple[Finding, ...] = ()
    back_tests: tuple[BackTest, ...] = ()
    depends_on: tuple[str, ...] = ()

    @property
    def smape(self) -> float:
        """Symmetric mean absolute percentage error over the points used, 0 to 200 [REF §3.1]."""
        return self.quality.smape

    @property
    def adjusted_r2(self) -> float:
        """Adjusted coefficient of determination; NaN where it is not defined."""
        return self.quality.adjusted_r2

    @property
    def function(self) -> Function:
        """The function that applies at the largest values of the parameter."""
        return self.segments[-1].function

    @property
    def doubt(self) -> str:
        """Why the values are no evidence for the growth described, "" if they are."""
        return self.doubt_without()

    def doubt_without(self, code: str = "") -> str:
        """Return `doubt` as it were without the findings of a code."""
        if not any(segment.function.terms for segment in self.segments):
            return ""
        findings = [finding for finding in self.findings if finding.code != code]
        fitted = self.formula_at(self.coordinates)
        return no_evidence(findings, self.adjusted_r2, self.values, fitted)

    @property
    def domain(self) -> dict[str, float]:
        """From which value of a parameter on it describes a series that changes before it."""
        return find_domain(self.parameters, self.coordinates, self.findings)

    def predict(self, points: "ArrayLike") -> FloatArray:
        """Return the centre of the distribution that `interval` integrates: (n,).

        This is the median over all functions that compete. `formula_at` evaluates the function
        that is printed, which describes most of them; where a modeler knows of no others, both are
        the same. Not negative if no measured value is.

        Args:
            points: (n, n_parameters) or (n,).

        Raises:
            ModelingError: the points do not fit the parameters.
        """
        table = columns(points, self.parameters)
        if len(self.spreads) != len(self.segments):
            return self.formula_at(table)

        index = self._segment_of(table)
        predicted = np.empty(len(table))
        for i, spread in enumerate(self.spreads):
            predicted[index == i] = spread.median(table[index == i])

        return np.maximum(predicted, 0.0) if (self.values >= 0).all() else predicted

    def formula_at(self, points: "ArrayLike") -> FloatArray:
        """Return the value of the printed function: (n, n_parameters) or (n,) to (n,).

        Not negative if no measured value is.

        Raises:
            ModelingError: the points do not fit the parameters.
        """
        table = columns(points, self.parameters)
        index = self._segment_of(table)

        values = np.empty(len(table))
        for i, segment in enumerate(self.segments):
            values[index == i] = segment.function(table[index == i])

        return np.maximum(values, 0.0) if (self.values >= 0).all() else values

    def interval(self, points: "ArrayLike", level: float = 0.95) -> FloatArray:
        """Return the bounds between which a measurement lies with this probability: (n, 2).

        Beyond the measured coordinates they are wider than coefficients and noise alone make them:
        each doubling of a parameter adds the noise once more, since what a function misses grows.

        NaN if uncertainty is not known, and outside of `domain`. Not negative if no value is.

        Args:
            points: (n, n_parameters) or (n,). level: 0.95 for 95 %.

        Raises:
            ModelingError: the points do not fit the parameters, or level is not in (0, 1).
        """
        if not 0 < level < 1:
            raise ModelingError(f"interval: level {level} is not between 0 and 1, as in 0.95")

        table = columns(points, self.parameters)
        bounds = np.full((len(table), 2), np.nan)
        for rows, task in self.spread_points(table):
            bounds[rows] = find_intervals([task], level)[0].bounds
        return self.limit_bounds(table, bounds)

    def spread_points(self, table: FloatArray) -> list[tuple[IntArray, SpreadPoints]]:
        """Return which spread predicts which rows of points (n, n_parameters), where known."""
        index, beyond = self._segment_of(table), self.doublings_beyond(table)
        tasks = []
        for i, spread in enumerate(self.spreads if len(self.spreads) == len(self.segments) else ()):
            rows = np.flatnonzero(index == i)
            if len(rows):
                tasks.append((rows, SpreadPoints(spread, table[rows], beyond[rows])))
        return tasks

    def limit_bounds(self, table: FloatArray, bounds: FloatArray) -> FloatArray:
        """Return bounds (n, 2) that are NaN outside of `domain`, not negative if no value is."""
        for name, lowest in self.domain.items():
            bounds[table[:, self.parameters.index(name)] < lowest] = np.nan
        return np.maximum(bounds, 0.0) if (self.values >= 0).all() else bounds

    def leading(self, at: "ArrayLike") -> tuple[Exponents, ...]:
        """Return exponents (alpha, beta) per parameter of the largest term at one point."""
        point = columns(np.reshape(np.asarray(at, dtype=float), (1, -1)), self.parameters)
        return self.segments[int(self._segment_of(point)[0])].function.leading(point)

    def spread_at(self, point: FloatArray) -> Spread | None:
        """Return the functions that compete at one point (n_parameters,), None if unknown."""
        if len(self.spreads) != len(self.segments):
            return None
        return self.spreads[int(self._segment_of(point[None])[0])]

    def doublings_beyond(self, table: FloatArray) -> FloatArray:
        """Return the distance of points from the measured coordinates, in doublings: (n,)."""
        if len(self.coordinates) == 0:
            return np.zeros(len(table))
        low, high = self.coordinates.min(axis=0), self.coordinates.max(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.maximum(np.log2(table / high), np.log2(low / table))
        steps = np.where(np.isfinite(steps), np.clip(steps, 0.0, MAX_DOUBLINGS_BEYOND), 0.0)
        return np.asarray(np.sqrt((steps**2).sum(axis=1)))

    def _segment_of(self, table: FloatArray) -> FloatArray:
        """The index of the segment of each point; a gap is divided in its middle."""
        if len(self.segments) == 1:
            return np.zeros(len(table))
        uppers = [(point.low + point.high) / 2 for point in self.change_points]
        return np.searchsorted(np.array(uppers), table[:, 0], side="left").astype(float)

    def __str__(self) -> str:
        if len(self.segments) == 1:
            return f"{self.function}{describe_domain(self.domain)}"
        name = self.parameters[0]
        texts = []
        for segment in self.segments:
            condition = f"{name} >= {number(segment.lower)}"
            if np.isfinite(segment.upper):
                condition = f"{name} <= {number(segment.upper)}"
            texts.append(f"{segment.function} for {condition}")
        return "; ".join(texts)

    def __repr__(self) -> str:
        """The function, how well it fits, and over which points."""
        over = ", ".join(self.parameters)
        return f"<{self}: {len(self.coordinates)} points over {over}, error {self.smape:.1f} %>"

    def to_dict(self, *, has_spreads: bool = True) -> dict[str, Any]:  # Any: JSON
        """Return a form that JSON can hold; `from_dict` reads it back exactly, with the spreads."""
        spreads = [spread.to_dict() for spread in self.spreads] if has_spreads else []
        return {
            "parameters": list(self.parameters),
            "modeler": self.modeler,
            "segments": [
                {
                    "lower": finite(segment.lower),
                    "upper": finite(segment.upper),
                    "function": segment.function.to_dict(),
                }
                for segment in self.segments
            ],
            "quality": {name: finite(getattr(self.quality, name)) for name in _QUALITY},
            "coordinates": self.coordinates.tolist(),
            "values": self.values.tolist(),
            "change_points": [list(point) for point in self.change_points],
            "spreads": spreads,
            "probability": finite(self.probability),
            "change_probabilities": list(self.change_probabilities),
            "findings": [[item.code, item.text, item.where] for item in self.findings],
            "back_tests": [list(test) for test in self.back_tests],
            **({"depends_on": list(self.depends_on)} if self.depends_on else {}),
        }

    def only_values(self) -> dict[str, float]:
        """The values of the parameters that have the same value at all points, if others differ."""
        if len(self.parameters) < 2 or not len(self.coordinates):
            return {}
        is_only = np.ptp(self.coordinates, axis=0) == 0
        if is_only.all():
            return {}
        first = self.coordinates[0].tolist()
        names_and_values = zip(self.parameters, first, is_only.tolist(), strict=True)
        return {name: value for name, value, is_same in names_and_values if is_same}

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], *, spreads: tuple[Spread, ...] | None = None
    ) -> "Model":
        """Read what `to_dict` has written; `spreads` are of the model that was without them."""
        parameters = tuple(data["parameters"])
        quality = data["quality"]
        if spreads is None:
            spreads = tuple(Spread.from_dict(item) for item in data["spreads"])
        return cls(
            parameters=parameters,
            segments=tuple(
                Segment(
                    _number(item["lower"], -np.inf),
                    _number(item["upper"], np.inf),
                    Function.from_dict(item["function"]),
                )
                for item in data["segments"]
            ),
            quality=Quality(*(_number(quality[name], np.nan) for name in _QUALITY)),
            modeler=data["modeler"],
            coordinates=np.array(data["coordinates"], dtype=float).reshape(-1, len(parameters)),
            values=np.array(data["values"], dtype=float),
            change_points=tuple(ChangePoint(*point) for point in data["change_points"]),
            spreads=spreads,
            probability=_number(data["probability"], np.nan),
            change_probabilities=tuple(data["change_probabilities"]),
            findings=tuple(Finding(*item) for item in data["findings"]),
            back_tests=tuple(BackTest(*item) for item in data.get("back_tests", ())),
            depends_on=tuple(data.get("depends_on", ())),
        )

    def mark_few_ranks(self, ranks: str) -> "Model":
        """The model of a call path that only these ranks execute, as in `rank 0 only`."""
        return replace(self, findings=(*self.findings, Finding(FEW_RANKS, ranks)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and json.dumps(self.to_dict()) == json.dumps(
            other.to_dict()
        )

    def __hash__(self) -> int:
        return hash((self.modeler, str(self)))


def _number(value: float | None, absent: float) -> float:
    return absent if value is None else float(value)


@dataclass(frozen=True, slots=True)
class SeriesModel:
    """A model with the key and the metric of its series."""

    key: SeriesKey
    metric: Metric
    model: Model

    @property
    def crowding(self) -> str:
        """`64 ranks on 2 cores` if these are times of ranks that shared cores, else ""."""
        return self._finding_text(CROWDED)

    @property
    def class_text(self) -> str:
        """The class as it is shown: `rank 0 only` for all of the few ranks of a call path."""
        few_ranks = self._finding_text(FEW_RANKS) if self.key.behaviour == ALL else ""
        return few_ranks or self.key.behaviour

    @property
    def is_supplement(self) -> bool:
        """Whether the model describes ranks that other models describe as well; see ModelSet."""
        return self.key.behaviour == MAXIMUM or self.has_mean_law

    @property
    def has_mean_law(self) -> bool:
        """Whether a class has too few coordinates for a law, and has that of all ranks."""
        return bool(self._finding_text(MEAN_LAW))

    def __repr__(self) -> str:
        """The series and its model."""
        behaviour = "" if self.key.behaviour == ALL else f", class {self.key.behaviour}"
        return f"<{self.key.metric} of {self.key.callpath}{behaviour}: {self.model!r}>"

    @property
    def text(self) -> str:
        """The functions of the model.

        They are marked if its times contain waiting for a core, if they are those of the mean, and
        if there is no evidence for them. A parameter with one value in all runs of a class cannot
        be in its functions: `at p = 4: 3 * n`.
        """
        law = f"as the mean: {self.model}" if self.has_mean_law else str(self.model)
        only = self.model.only_values()
        if only and not self.has_mean_law:
            listed = ", ".join(f"{name} = {number(value)}" for name, value in only.items())
            law = f"at {listed}: {law}"
        law = f"unclear: {law}" if self.model.doubt else law
        return f"crowded: {law}" if self.crowding else law

    def lend_law(
        self, key: SeriesKey, coordinates: FloatArray, values: FloatArray
    ) -> "SeriesModel":
        """A class with too few coordinates for a law: its own points, and the law of this mean.

        Args:
            key: of the class.
            coordinates: (n_points, n_parameters), where the class was measured.
            values: (n_points,).
        """
        count = len(coordinates)
        text = f"measured at {count} coordinate{'s' * (count != 1)}; the law is that of all ranks"
        model = replace(
            self.model,
            coordinates=coordinates,
            values=values,
            findings=(*self.model.findings, Finding(MEAN_LAW, text)),
            back_tests=(),
        )
        return SeriesModel(key, self.metric, model)

    def _finding_text(self, code: str) -> str:
        return next((item.text for item in self.model.findings if item.code == code), "")


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters of the ranks, for one metric of one call path at one coordinate.

    labels: (n_ranks,), 0 for the smallest values, -1 if the rank has no value. names[label] is the
    behaviour class.
    """

    callpath: CallPath
    metric: str
    run: RunKey
    labels: np.ndarray
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassMeans:
    """The classes of an experiment, and the mean of each in each run.

    basis: digest of what the classes were found in, and how; empty where that cannot be
    recognised. metrics: by name. keys: the series of each metric. means: (n_series,) by identity
    of the run and name of the metric. clusters, findings: of the classes.
    """

    basis: str = ""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    keys: Mapping[str, Sequence[SeriesKey]] = field(default_factory=dict)
    means: Mapping[str, Mapping[str, FloatArray]] = field(default_factory=dict)
    clusters: Sequence[Clusters] = ()
    findings: Sequence[Finding] = ()


@dataclass(frozen=True, slots=True)
class ModelSet:
    """All models, classes and findings of a campaign.

    models: of every class, and of the mean over all ranks. supplements: models that no sum over
    classes may contain: of the maximum over ranks where it differs from the mean, of the whole run,
    and of classes with too few coordinates, which have their own points and the law of the mean.
    rest: call paths whose exclusive time has no model although others have one, with their share
    (0 to 1) of the time of all ranks in the largest run, the most expensive first.
    """

    parameters: tuple[str, ...] = ()
    models: Sequence[SeriesModel] = ()
    clusters: Sequence[Clusters] = ()
    findings: tuple[Finding, ...] = field(default=())
    rest: Mapping[CallPath, float] = field(default_factory=dict)
    supplements: Sequence[SeriesModel] = ()

    def __repr__(self) -> str:
        """How many models there are, over which parameters, and of which metrics."""
        paths = {series.key.callpath for series in self.models}
        metrics = ", ".join(dict.fromkeys(series.key.metric for series in self.models))
        over = ", ".join(self.parameters)
        counts = f"{len(self.models)} models of {len(paths)} call paths over {over}"
        return f"<{counts}: {metrics}>" if self.models else "<no models>"

    def every_model(self) -> list[SeriesModel]:
        """All models and supplements, sorted by series."""
        return sorted([*self.models, *self.supplements], key=lambda series: series.key)

    def series_of(self, callpath: str, metric: str) -> list[SeriesModel]:
        """The models and supplements of a metric of a call path, classes first."""
        rows = [*self.models, *self.supplements]
        of_metric = [series for series in rows if series.key.metric == metric]
        return [series for series in of_metric if str(series.key.callpath) == callpath]
