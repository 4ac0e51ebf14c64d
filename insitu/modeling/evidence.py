"""Modeler "evidence": the posterior over hypotheses, and what it says about the growth of a series.

Every function of the lattice (constant, one term, two terms) has a prior that prefers simple
exponents; its evidence is the probability of the data under it, coefficients and noise integrated
out. The noise is shared by the series of a pool. Errors are relative; coefficients are not
negative, so no model predicts a negative time, and falling exponents describe strong scaling.
Compare [REF §3], which takes the best fit of one hypothesis and two thresholds instead.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from insitu.measurement import FloatArray, IntArray, Points
from insitu.modeling import noise
from insitu.modeling.answer import AHEAD, Answer, Posterior, Scales, answers, weigh
from insitu.modeling.base import Model, Segment
from insitu.modeling.lattice import Lattice, lattice
from insitu.modeling.pmnf import Function
from insitu.modeling.posterior import Candidates, Data, candidates
from insitu.modeling.quality import qualities
from insitu.modeling.search import Search, few_points
from insitu.modeling.series import Series, reduce

AT_ONCE = 256  # series, so that the arrays of a batch stay in the cache
SMALLEST = 1e-3  # values count at least as this part of the largest of their series


@dataclass(frozen=True, slots=True)
class Evidence:
    """The default modeler. exponential: also consider 2^(γ·x) and x^α · 2^(γ·x)."""

    exponential: bool = False
    name: ClassVar[str] = "evidence"
    min_points: ClassVar[int] = 5

    def fit(self, points: Points) -> list[Model]:
        """See Modeler; the series of one call share what is learnt about noise."""
        if len(points.parameters) > 1:
            return Search().fit(points)
        series = reduce(points)
        names = [key.metric for key in points.keys] or [""] * len(series.values)
        batch = Batch(series, names, lattice(points.parameters[0], exponential=self.exponential))
        found = batch.answers(points.parameters[0])
        return _models(found, series, points.parameters, self.name)


class Batch:
    """Series on the same points, scaled, with the law of noise of their pools."""

    def __init__(self, series: Series, metrics: list[str], lattice: Lattice) -> None:
        self.series, self.metrics, self.lattice = series, metrics, lattice
        self.x = series.coordinates[:, 0]
        values = np.nan_to_num(series.values)
        measured = ~np.isnan(series.values)
        largest = np.abs(values).max(axis=1, initial=0.0)
        sign = np.where(values.sum(axis=1) < 0, -1.0, 1.0)
        self.scale = sign * np.where(largest > 0, largest, 1.0)
        relative = values / self.scale[:, None]
        weights = noise.weight_of_repetitions(series.counts)
        weights = np.where(measured, weights / np.maximum(np.abs(relative), SMALLEST) ** 2, 0.0)
        rows = lattice.design(self.x)
        with np.errstate(invalid="ignore"):
            size = np.abs(rows).max(axis=1, initial=0.0)
        self.terms = np.where(np.isfinite(size) & (size > 0), size, 1.0)
        self.data = Data(
            rows / self.terms[:, None],
            weights,
            weights * relative,
            (weights * relative**2).sum(axis=1),
            measured.sum(axis=1).astype(float),
        )

    def answers(self, parameter: str) -> list[Answer]:
        """The answer for each series as one function."""
        unknown = Answer(Function((parameter,), np.nan), None, np.nan, 1)
        result = [unknown] * len(self.scale)
        target = AHEAD * float(self.x.max(initial=1.0))
        for members, levels, law in self.laws():
            for start in range(0, len(members), AT_ONCE):
                rows = members[start : start + AT_ONCE]
                found, posterior = self.posterior(rows, levels, law)
                made = answers(
                    found,
                    posterior,
                    self.lattice,
                    parameter=parameter,
                    scales=Scales(self.scale[rows], self.terms),
                    target=target,
                )
                for row, answer in zip(rows, made, strict=True):
                    result[row] = answer
        return result

    def laws(self) -> list[tuple[IntArray, FloatArray, FloatArray]]:
        """Per pool: its series, the noise levels worth computing, the law over them."""
        counted = noise.counted(self.series.values)
        measured = self.data.counts > 0
        keys = [(name, bool(whole)) for name, whole in zip(self.metrics, counted, strict=True)]
        sizes = noise.sizes(self.series.values)
        result = []
        for key in dict.fromkeys(keys):
            members = np.array(
                [i for i, k in enumerate(keys) if k == key and measured[i]], dtype=np.intp
            )
            if len(members) == 0:
                continue
            levels = noise.COUNTED if key[1] else noise.LEVELS
            sample = members[:: max(1, -(-len(members) // noise.SAMPLE))]
            likelihood = self.likelihood(sample, levels)
            common = noise.law(likelihood, noise.prior(levels), weight=noise.PRIOR_WEIGHT)
            for size in np.unique(sizes[members]):
                of_size = likelihood[sizes[sample] == size]
                law = noise.law(of_size, common, weight=noise.POOL_WEIGHT)
                keep = noise.worth_computing(law)
                result.append((members[sizes[members] == size], levels[keep], law[keep]))
        return result

    def likelihood(self, rows: IntArray, levels: FloatArray) -> FloatArray:
        """Logarithm of the probability of the data of some series at each noise level: (s, L)."""
        answer = np.empty((len(rows), len(levels)))
        for start in range(0, len(rows), AT_ONCE):
            part = rows[start : start + AT_ONCE]
            found = candidates(self.data.part(part), self.lattice, levels)
            top = found.log_evidence.max(axis=1, keepdims=True)
            total = np.exp(found.log_evidence - top).sum(axis=1)
            answer[start : start + AT_ONCE] = np.log(total) + top[:, 0]
        return answer + self.repetitions(rows, levels)

    def repetitions(self, rows: IntArray, levels: FloatArray) -> FloatArray:
        """Logarithm of what repetitions say about the noise of these series: (s, L)."""
        return noise.likelihood_of_repetitions(
            self.series.deviations[rows], self.series.counts[rows], levels
        )

    def posterior(
        self, rows: IntArray, levels: FloatArray, law: FloatArray
    ) -> tuple[Candidates, Posterior]:
        """Hypotheses and their posterior for some series on all points."""
        found = candidates(self.data.part(rows), self.lattice, levels)
        prior = np.exp(self.repetitions(rows, levels)) * law
        return found, weigh(found.log_evidence, prior, levels)


def _models(
    found: list[Answer], series: Series, parameters: tuple[str, ...], name: str
) -> list[Model]:
    fitted = np.array([answer.function(series.coordinates) for answer in found])
    columns = np.array([answer.columns for answer in found])
    measures = qualities(series.values, fitted.reshape(series.values.shape), columns)
    full = (~np.isnan(series.values)).all(axis=1).tolist()
    models = []
    for i, answer in enumerate(found):
        points, values = series.coordinates, series.values[i]
        if not full[i]:
            measured = ~np.isnan(values)
            points, values = points[measured], values[measured]
        models.append(
            Model(
                parameters=parameters,
                segments=(Segment(-np.inf, np.inf, answer.function),),
                quality=measures[i],
                modeler=name,
                coordinates=points,
                values=values,
                spreads=(answer.spread,) if answer.spread else (),
                probability=answer.probability,
                findings=few_points(len(values)),
            )
        )
    return models
