"""Series of one parameter on the same points, scaled for the fits of the hypotheses."""

from collections import defaultdict
from copy import copy
from dataclasses import replace

import numpy as np

from insitu.modeling.evidence import newest, noise
from insitu.modeling.evidence.answer import (
    N_COMPETING,
    TARGET_FACTOR,
    Answer,
    Scales,
    choose_answers,
)
from insitu.modeling.evidence.duplicates import Distinct, find_distinct
from insitu.modeling.evidence.hypothesis_space import HypothesisSpace
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.posterior import Posterior
from insitu.modeling.evidence.relative_data import (
    RelativeData,
    scale_errors,
    smallest_sizes,
)
from insitu.modeling.evidence.repetitions import RepetitionWorth, weigh_repetitions
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.series import Series

SMALLEST_TERM = 1e-60  # terms smaller than this everywhere, or larger than its inverse, are unused


class Batch:
    """Series of one parameter with relative errors, scaled terms, and repetitions as weights."""

    def __init__(
        self,
        series: Series,
        metrics: list[str],
        space: HypothesisSpace,
        *,
        n_hypotheses: int = N_COMPETING,
        is_tested: bool = False,
    ) -> None:
        """Scale the series.

        Args:
            series: on n points of one parameter.
            metrics: of each series.
            space: the functions to consider.
            n_hypotheses: how many make up the spread of an answer.
            is_tested: whether models of the smaller scales are tested at the largest.
        """
        self.series = replace(series, keys=())  # the metrics are all that is needed of the keys
        self.metrics, self.space = metrics, space
        self._pools: dict[tuple[str, bool], IntArray] | None = None
        self.n_hypotheses = n_hypotheses
        self.x = series.coordinates[:, 0]
        self.is_tested = is_tested and bool((self.x > 0).all())
        self.is_exponential = bool((space.exponents[:, 2] != 0).any())
        self.examines_newest = len(self.x) >= newest.MIN_POINTS and not self.is_exponential

        # Values relative to the largest of their series, most of them positive.
        values = np.nan_to_num(series.values)
        largest = np.abs(values).max(axis=1, initial=0.0)
        sign = np.where(values.sum(axis=1) < 0, -1.0, 1.0)
        self.has_values = largest > 0  # a series of zeros says nothing about noise
        self.scale = sign * np.where(self.has_values, largest, 1.0)
        self.relative = values / self.scale[:, None]
        self.min_size = smallest_sizes(self.relative)
        is_positive = np.isfinite(series.values) & (self.relative > 0)
        self.smallest = np.where(is_positive, self.relative, 1.0).min(axis=1, initial=1.0)

        # Terms relative to their largest value; NaN where a term cannot be used.
        terms = space.evaluate_terms(self.x)
        with np.errstate(invalid="ignore"):
            size = np.abs(terms).max(axis=1, initial=0.0)
        is_usable = np.isfinite(size) & (size > SMALLEST_TERM) & (size < 1 / SMALLEST_TERM)
        self.term_scale = np.where(is_usable, size, 1.0)
        terms[~is_usable] = np.nan

        self.worth = weigh_repetitions(series, self._pools_of_times())
        self.data = self._scale_errors(terms / self.term_scale[:, None])

    def select(self, rows: IntArray) -> "Batch":
        """Return a batch of some of the series (k,); results do not depend on the others."""
        selected = copy(self)
        selected._pools = None
        selected.series = self.series.select(rows)
        selected.metrics = [self.metrics[row] for row in rows]
        selected.has_values, selected.scale = self.has_values[rows], self.scale[rows]
        selected.relative, selected.min_size = self.relative[rows], self.min_size[rows]
        selected.worth, selected.smallest = self.worth.select(rows), self.smallest[rows]
        selected.data = self.data.select(rows)
        return selected

    def find_distinct(self, rows: IntArray, noise: FloatArray | None = None) -> Distinct:
        """Group some of the series (k,) whose answers are equal because their data are.

        Args:
            rows: (k,), of one pool. noise: (k, L), probability of each level, where it is known.
        """
        return find_distinct(self.series.select(rows), self.worth.select(rows), noise)

    def _scale_errors(self, terms: FloatArray) -> RelativeData:
        is_measured = ~np.isnan(self.series.values)
        return scale_errors(
            terms,
            np.where(is_measured, self.worth.repetitions, 0.0),
            self.relative,
            size=np.maximum(np.abs(self.relative), self.min_size),
        )

    def with_worth(self, worth: RepetitionWorth) -> "Batch":
        """Return the same series with repetitions that are worth so much."""
        revised = copy(self)
        revised.worth = worth
        revised.data = revised._scale_errors(self.data.terms)
        return revised

    def with_measured(self, rows: IntArray) -> "Batch":
        """Return the same series, in which repetitions of these (k,) are worth what times are."""
        return self.with_worth(weigh_repetitions(self.series, [rows]))

    def pools(self) -> dict[tuple[str, bool], IntArray]:
        """Return the series that share their noise: indices by metric and whether they are counts.

        Series that were never measured and series of zeros are left out.
        """
        if self._pools is None:
            self._pools = self._find_pools()
        return self._pools

    def _find_pools(self) -> dict[tuple[str, bool], IntArray]:
        are_counts = noise.are_counts(self.series.values)
        is_measured = np.isfinite(self.series.values).any(axis=1)
        groups: dict[tuple[str, bool], list[int]] = defaultdict(list)
        for row in np.flatnonzero(is_measured & self.has_values).tolist():
            groups[self.metrics[row], bool(are_counts[row])].append(row)
        return {key: np.array(rows, dtype=np.intp) for key, rows in groups.items()}

    def _pools_of_times(self) -> list[IntArray]:
        return [rows for (_, are_counts), rows in self.pools().items() if not are_counts]

    def log_likelihood_of_noise(self, rows: IntArray, levels: FloatArray) -> FloatArray:
        """Return what is known of the noise of these series before any fit: (s, L), logarithm."""
        of_repetitions = noise.log_likelihood_of_scatter(
            self.worth.deviations[rows], self.series.counts[rows], levels
        )
        return of_repetitions + noise.log_likelihood_of_least(self.worth.least[rows], levels)

    def choose(
        self,
        rows: IntArray,
        candidates: Candidates,
        posterior: Posterior,
        *,
        target: float | None = None,
    ) -> list[Answer]:
        """Return one answer for each of some series.

        Args:
            rows: (s,). candidates, posterior: of these. target: where functions are compared;
                default: TARGET_FACTOR times the largest value of the parameter.
        """
        return choose_answers(
            candidates,
            posterior,
            self.space,
            scales=Scales(
                values=self.scale[rows],
                terms=self.term_scale,
                noise=self.worth.newest[rows],
                degrees=self.worth.degrees[rows],
                smallest=self.smallest[rows] * self.scale[rows],
            ),
            target=float(TARGET_FACTOR * self.x[-1] if target is None else target),
            n_hypotheses=self.n_hypotheses,
        )
