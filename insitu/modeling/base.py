"""What a modeler takes and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np

from insitu.entities import CallPath, Finding, Metric, RunKey
from insitu.measurement import FloatArray, Points, SeriesKey
from insitu.modeling.pmnf import Function

Exponents = tuple[Fraction, Fraction]  # alpha, beta of x^alpha * log2(x)^beta


@dataclass(frozen=True, slots=True)
class Segment:
    """A function and where it holds; bounds are values of the parameter, infinite at the ends."""

    lower: float
    upper: float
    function: Function


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The gap between two segments: behaviour changes after `low` and not later than `high`."""

    low: float
    high: float
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a model fits the points it was made from.

    smape in percent; adjusted_r2 is NaN where it is not defined (a constant fits a constant).
    """

    smape: float
    adjusted_r2: float
    rss: float = float("nan")


@dataclass(frozen=True, slots=True)
class Spread:
    """What is needed to compute prediction intervals; filled by the modeler, read by `Model.interval`.

    hypotheses: functions that compete, with their posterior weights; sigma: relative noise level (0.02 is 2 %),
    degrees: degrees of freedom of sigma; covariance of the coefficients per hypothesis, where known.
    """

    functions: tuple[Function, ...]
    weights: tuple[float, ...]
    sigma: float
    degrees: float
    covariances: tuple[FloatArray, ...] = ()


class Modeler(Protocol):
    """Pure: arrays in, models out."""

    name: str
    min_points: int

    def fit(self, points: Points) -> list["Model"]:
        """All series that share these coordinates, at once; one model per series, in order."""


@dataclass(frozen=True, slots=True)
class Model:
    """The answer for a series: one or more segments, quality, the modeler's name, the points used."""

    parameters: tuple[str, ...]
    pieces: tuple[Segment, ...]
    quality: Quality
    modeler: str
    coordinates: FloatArray
    values: FloatArray
    spread: Spread | None = None
    changes: tuple[ChangePoint, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class SeriesModel:
    """A model with the name of the series it describes."""

    key: SeriesKey
    metric: Metric
    model: Model


@dataclass(frozen=True, slots=True)
class Clusters:
    """The ranks of one metric of one call path at one coordinate, partitioned.

    labels: one per rank, 0 for the smallest values, -1 where the rank has none; names[label] is the behaviour class.
    """

    callpath: CallPath
    metric: str
    run: RunKey
    labels: np.ndarray
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelSet:
    """All models, classes and findings of a campaign."""

    parameters: tuple[str, ...] = ()
    models: Sequence[SeriesModel] = ()
    clusters: Sequence[Clusters] = ()
    findings: tuple[Finding, ...] = field(default=())
