"""Models over several parameters, from the evidence of combinations of terms."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath
from insitu.modeling.evidence import noise
from insitu.modeling.evidence.answer import (
    CLOSE,
    MAX_LOG_DISTANCE,
    MAX_TERM_VALUE,
    N_HYPOTHESES,
    TARGET_FACTOR,
    Answer,
    expected_distance,
)
from insitu.modeling.evidence.combination_fits import MultiParameterBatch, WeighedCombinations
from insitu.modeling.evidence.combinations import structures
from insitu.modeling.evidence.learn import Map
from insitu.modeling.evidence.plane import NEGLIGIBLE_SHARE, with_plane
from insitu.modeling.evidence.pool import no_answer
from insitu.modeling.evidence.posterior import compute_posterior
from insitu.modeling.evidence.whole import NOISY
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.pmnf import Function, Term
from insitu.modeling.series import Series
from insitu.modeling.spread import Spread

# For a call path, the sets of parameters that may occur together in one term.
Dependencies = Mapping[CallPath, Sequence[Sequence[str]]]

DEPENDENCY_PRIOR = 0.95  # of the sum of just the products that a call path depends on
NEGLIGIBLE_TERM = 1e-10  # relative to the largest term: a smaller one is left out
SPREAD_SIZE = 40  # combinations that make up the spread of an answer


def solve_multi_parameter(
    series: Series, dependencies: Dependencies, map_: Map = map
) -> list[Answer]:
    """Return one answer per series over two to four parameters.

    Args:
        series: with keys, if dependencies are known.
        dependencies: for a call path, the sets of parameters that may occur in one term, such as
            {path: [["p"], ["n"]]} for no interaction; call paths without an entry may have any
            structure. The sum of just these products is expected.
        map_: applies a function to many chunks of work, here or in other processes.
    """
    nothing = no_answer(series.parameters)
    n_series = len(series.values)
    is_measured = np.asarray((series.counts > 0).any(axis=1))
    if not is_measured.any():
        return [nothing] * n_series

    batch = MultiParameterBatch(series)
    log_prior = _structure_priors(series, dependencies)
    metrics = np.array([key.metric for key in series.keys] or [""] * n_series)
    are_counts = noise.are_counts(series.values)

    answers: dict[int, Answer] = {}
    for metric in np.unique(metrics):
        for is_count in (False, True):
            is_member = is_measured & (are_counts == is_count) & (metrics == metric)
            members = np.flatnonzero(is_member)
            if len(members):
                levels = noise.COUNT_LEVELS if is_count else noise.LEVELS
                answers |= _solve_pool(batch, members, log_prior, levels, map_=map_)
    return [answers.get(row, nothing) for row in range(n_series)]


def _structure_priors(series: Series, dependencies: Dependencies) -> FloatArray:
    """The log prior of each structure for each series: (s, n_structures)."""
    names = series.parameters
    forms = structures(len(names))
    priors = np.array([form.prior for form in forms])
    result = np.tile(np.log(priors), (len(series.values), 1))

    for row, key in enumerate(series.keys):
        known = dependencies.get(key.callpath)
        if known is None:
            continue
        products = []
        for product in known:
            products.append({names.index(name) for name in product if name in names})

        # Only products whose parameters occur together, and preferably just these products.
        is_possible = [_fits_into(form.groups, products) for form in forms]
        weights = np.where(is_possible, priors, 0.0)
        weights /= weights.sum()
        expected = {frozenset(product) for product in products}
        is_expected = [{frozenset(group) for group in form.groups} == expected for form in forms]
        if any(is_expected):
            of_expected = np.where(is_expected, priors, 0.0)
            weights = (1 - DEPENDENCY_PRIOR) * weights
            weights = weights + DEPENDENCY_PRIOR * of_expected / of_expected.sum()

        result[row] = np.log(np.maximum(weights, 1e-300))
        result[row, ~np.array(is_possible)] = -np.inf
    return result


def _fits_into(groups: Sequence[Sequence[int]], products: Sequence[set[int]]) -> bool:
    """Whether the parameters of each group occur together in a product."""
    return all(any(set(group) <= product for product in products) for group in groups)


@dataclass(frozen=True, slots=True)
class _Task:
    """Some series of a pool: their batch and priors of structures.

    noise: (L,), the distribution of noise, once it is known. weighed: if already computed.
    """

    batch: MultiParameterBatch
    log_prior: FloatArray
    levels: FloatArray
    noise: FloatArray | None = None
    weighed: WeighedCombinations | None = None


def _solve_pool(
    batch: MultiParameterBatch,
    members: IntArray,
    log_prior: FloatArray,
    levels: FloatArray,
    *,
    map_: Map,
) -> dict[int, Answer]:
    """The answers of series that share a distribution of noise, learnt from a sample of them."""
    stride = max(1, -(-len(members) // noise.SAMPLE_SIZE))  # rounded up
    sample = members[::stride]
    sample_chunks = list(_chunks(batch, sample))
    tasks = (_Task(batch.select(rows), log_prior[rows], levels) for rows in sample_chunks)
    weighed = list(map_(_weigh, tasks))

    by_chunk = [np.logaddexp.reduce(chunk.log_evidence_of_all(), axis=1) for chunk in weighed]
    likelihood = np.concatenate(by_chunk) + _log_likelihood_of_scatter(batch, sample, levels)
    distribution = noise.fit_noise_distribution(
        likelihood, noise.noise_prior(levels), prior_weight=noise.PRIOR_WEIGHT
    )

    # The sample need not be weighed a second time.
    other_chunks = list(_chunks(batch, np.setdiff1d(members, sample)))
    chunks = [*sample_chunks, *other_chunks]
    weighed_or_none = [*weighed, *[None for _ in other_chunks]]
    tasks = (
        _Task(batch.select(rows), log_prior[rows], levels, distribution, known)
        for rows, known in zip(chunks, weighed_or_none, strict=True)
    )
    answers: dict[int, Answer] = {}
    for rows, of_chunk in zip(chunks, map_(_solve, tasks), strict=True):
        answers |= dict(zip(rows.tolist(), of_chunk, strict=True))
    return answers


def _weigh(task: _Task) -> WeighedCombinations:
    rows = np.arange(len(task.log_prior))
    return task.batch.weigh(rows, task.levels, task.log_prior)


def _solve(task: _Task) -> list[Answer]:
    """Answers of the series; noisy ones a second time, with errors relative to their function."""
    batch, levels = task.batch, task.levels
    rows = np.arange(len(task.log_prior))
    noise_prior = np.exp(_log_likelihood_of_scatter(batch, rows, levels)) * task.noise

    weighed = task.weighed or _weigh(task)
    best = _BestCombinations(batch, rows, weighed, noise_prior, levels=levels)
    answers = best.answers()

    noisy = np.flatnonzero(best.posterior.sigma > NOISY)
    if len(noisy):
        size = np.abs(best.mean()[noisy])
        weighed = batch.weigh(noisy, levels, task.log_prior[noisy], size=size)
        best = _BestCombinations(batch, noisy, weighed, noise_prior[noisy], levels=levels)
        for row, answer in zip(noisy.tolist(), best.answers(), strict=True):
            answers[row] = answer
    return answers


def _chunks(batch: MultiParameterBatch, members: IntArray) -> Iterator[IntArray]:
    size = batch.chunk_size()
    return (members[start : start + size] for start in range(0, len(members), size))


def _log_likelihood_of_scatter(
    batch: MultiParameterBatch, rows: IntArray, levels: FloatArray
) -> FloatArray:
    series = batch.series
    return noise.log_likelihood_of_scatter(series.deviations[rows], series.counts[rows], levels)


class _BestCombinations:
    """The combinations of some series, most probable first: from them to one function each."""

    def __init__(
        self,
        batch: MultiParameterBatch,
        rows: IntArray,
        weighed: WeighedCombinations,
        noise_prior: FloatArray,
        *,
        levels: FloatArray,
    ) -> None:
        self.batch, self.rows, self.terms = batch, rows, weighed.terms
        log_evidence = weighed.log_evidence_of_all()
        self.posterior = compute_posterior(log_evidence, noise_prior, levels)
        self.planes, self.share_of_plane = weighed.planes, self.posterior.hypotheses[:, -1]
        joint = weighed.planes.log_evidence + np.log(np.maximum(noise_prior, 1e-300))
        joint = np.where(np.isfinite(joint), joint, -1e300)
        self.levels_of_plane = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))

        of_combinations = self.posterior.hypotheses[:, :-1]
        of_combinations = of_combinations / (1 - self.share_of_plane)[:, None]
        order = np.argsort(-of_combinations, axis=1, kind="stable")
        self.weights = np.take_along_axis(of_combinations, order, 1)
        self.chosen = np.take_along_axis(weighed.chosen, order, 1)
        self.columns = batch.plan.members[self.chosen]
        self.estimates = np.take_along_axis(weighed.estimates, order[:, :, None], 1)
        self.inverses = np.take_along_axis(weighed.inverses, order[:, :, None, None], 1)

    def mean(self) -> FloatArray:
        """Return the posterior mean of the function at each point, relative: (s, n)."""
        terms = [values[self.terms[:, i]] for i, values in enumerate(self.batch.terms)]
        columns = self._columns_of_each(self.batch.plan.design_matrix(terms))
        mean = np.einsum("sq,sqk,sqkn->sn", self.weights, self.estimates, columns)
        return np.asarray(mean)

    def _columns_of_each(self, design: FloatArray) -> FloatArray:
        """The columns of each combination: (s, q, k, n), zero where it has none."""
        padded = np.concatenate([design, np.zeros_like(design[:, :1])], axis=1)
        return np.asarray(padded[np.arange(len(design))[:, None, None], self.columns])

    def answers(self) -> list[Answer]:
        """Return one answer per series."""
        chosen, agreement = self._choose()
        spreads = self._spreads()
        answers = []
        for i, k in enumerate(chosen.tolist()):
            n_columns = int((self.columns[i, k] >= 0).sum())
            function = self._function(i, k)
            probability = float(agreement[i] * (1 - self.share_of_plane[i]))
            spread = self._with_plane(i, spreads[i])
            answers.append(Answer((function,), (spread,), probability, n_columns))
        return answers

    def _with_plane(self, i: int, spread: Spread) -> Spread:
        """The spread of series i with its plane, if that is not negligible."""
        share = float(self.share_of_plane[i])
        if not share > NEGLIGIBLE_SHARE:
            return spread
        of_levels = self.levels_of_plane[i]
        return with_plane(
            spread,
            of_levels @ self.planes.coefficients[i],
            np.einsum("l,lab->ab", of_levels, self.planes.covariances[i]),
            scale=float(self.batch.scale[self.rows[i]]),
            share=share,
        )

    def _choose(self) -> tuple[IntArray, FloatArray]:
        """The combination with whose terms and prediction most probability agrees (s,).

        With the posterior of its terms. Compare `answer._BestHypotheses.choose`.
        """
        predicted, deviation = self._predict()
        weights, tried = self.weights[:, None, :], slice(0, N_HYPOTHESES)

        keys = self.batch.plan.keys[self.chosen]
        has_same_terms = keys[:, tried, None] == keys[:, None, :]
        agreement = (has_same_terms * weights).sum(axis=2)

        centre = predicted[:, tried, None]
        distance = (centre - predicted[:, None, :]) / deviation[:, None, :]
        width = CLOSE * np.abs(centre) / deviation[:, None, :]
        from scipy.special import ndtr  # takes 0.2 s to import, and one parameter does not need it

        near = ndtr(distance + width) - ndtr(distance - width)
        near = (weights * near).sum(axis=2)

        gain = agreement + near - expected_distance(predicted, self.weights, N_HYPOTHESES)
        is_possible = self.weights[:, tried] > 0
        chosen = np.argmax(np.where(is_possible, gain, -MAX_LOG_DISTANCE), axis=1)
        return chosen, np.take_along_axis(agreement, chosen[:, None], 1)[:, 0]

    def _predict(self) -> tuple[FloatArray, FloatArray]:
        """The prediction at the target and its standard deviation: (s, q) each."""
        batch = self.batch
        target = TARGET_FACTOR * batch.series.coordinates.max(axis=0)
        terms = []
        for i, space in enumerate(batch.spaces):
            at_target = space.evaluate_terms(target[i : i + 1])[:, 0] / batch.term_scales[i]
            at_target = np.where(np.abs(at_target) < MAX_TERM_VALUE, at_target, 0.0)
            terms.append(at_target[self.terms[:, i], None])

        columns = self._columns_of_each(batch.plan.design_matrix(terms))[..., 0]
        predicted = (columns * self.estimates).sum(axis=2)
        variance = np.einsum("sqk,sqkl,sql->sq", columns, self.inverses, columns)
        deviation = np.sqrt(np.maximum(variance, 0.0)) * self.posterior.sigma[:, None]
        return predicted, np.maximum(deviation, 1e-9 * np.abs(predicted) + 1e-300)

    def _function(self, i: int, k: int) -> Function:
        """Combination k of series i in the units of the data."""
        batch = self.batch
        shares = np.abs(self.estimates[i, k])
        is_visible = shares > NEGLIGIBLE_TERM * shares.max()
        estimates = np.where(is_visible, self.estimates[i, k], 0.0)
        coefficients = (estimates * self._scales(i, k)).tolist()

        constant, terms = 0.0, []
        for column, coefficient in zip(self.columns[i, k].tolist(), coefficients, strict=True):
            if column == 0:
                constant = coefficient
            elif column > 0 and coefficient != 0:
                factors = []
                for parameter, slot in batch.plan.factors[column]:
                    index = self.terms[i, parameter, slot]
                    factors.append(batch.spaces[parameter].shapes[index][0])
                terms.append(Term(coefficient, tuple(factors)))
        return Function(batch.parameters, constant, tuple(terms))

    def _scales(self, i: int, k: int) -> FloatArray:
        """The factors from coefficients of scaled columns to those of the data: (k,)."""
        batch = self.batch
        scales = []
        for column in self.columns[i, k]:
            of_factors = []
            for parameter, slot in batch.plan.factors[column]:
                of_factors.append(1 / batch.term_scales[parameter][self.terms[i, parameter, slot]])
            scales.append(np.prod(of_factors))
        return np.asarray(np.array(scales) * batch.scale[self.rows[i]])

    def _spreads(self) -> list[Spread]:
        """The most probable combinations of each series, in the units of the data."""
        batch, plan = self.batch, self.batch.plan
        columns = self.columns[:, :SPREAD_SIZE]
        s, q, k = columns.shape
        n_parameters = len(batch.parameters)

        # The exponents of each column, and what turns its coefficient into that of the data.
        exponents = np.zeros((s, q, k, n_parameters, 3))
        scales = np.ones((s, q, k))
        slots = plan.column_slots[columns]
        for p in range(n_parameters):
            terms = self.terms[np.arange(s)[:, None, None], p, slots[..., p]]
            is_used = slots[..., p] >= 0
            of_terms = batch.spaces[p].exponents[terms]
            exponents[..., p, :] = np.where(is_used[..., None], of_terms, 0)
            scales /= np.where(is_used, batch.term_scales[p][terms], 1.0)
        scales *= batch.scale[self.rows][:, None, None]

        covariances = self.inverses[:, :SPREAD_SIZE] * scales[..., :, None] * scales[..., None, :]
        covariances *= self.posterior.sigma[:, None, None, None] ** 2
        coefficients, covariances, exponents = _constant_first(
            self.estimates[:, :SPREAD_SIZE] * scales,
            covariances,
            exponents,
            has_constant=columns[:, :, 0] == 0,
        )
        weights = self.weights[:, :SPREAD_SIZE]
        weights = weights / weights.sum(axis=1, keepdims=True)
        return [
            Spread(
                exponents=exponents[i],
                coefficients=coefficients[i],
                covariances=covariances[i],
                weights=weights[i],
                sigma=float(self.posterior.sigma[i]),
                degrees=float(self.posterior.degrees[i]),
            )
            for i in range(s)
        ]


def _constant_first(
    coefficients: FloatArray,
    covariances: FloatArray,
    exponents: FloatArray,
    *,
    has_constant: np.ndarray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give all combinations an entry for the constant, followed by their terms.

    Args:
        coefficients: (s, q, k). covariances: (s, q, k, k). exponents: (s, q, k, m, 3).
        has_constant: (s, q), whether the first entry already is the constant.

    Returns:
        The same in shapes (s, q, k + 1), (s, q, k + 1, k + 1) and (s, q, k, m, 3).
    """
    s, q, k = coefficients.shape
    values, spread = np.zeros((s, q, k + 1)), np.zeros((s, q, k + 1, k + 1))
    of_terms = np.zeros((s, q, k, *exponents.shape[3:]))

    values[:, :, :k], spread[:, :, :k, :k] = coefficients, covariances
    of_terms[:, :, : k - 1] = exponents[:, :, 1:]

    without = ~has_constant
    values[without] = 0.0
    spread[without] = 0.0
    values[without, 1:] = coefficients[without]
    spread[without, 1:, 1:] = covariances[without]
    of_terms[without] = exponents[without]
    return values, spread, of_terms
