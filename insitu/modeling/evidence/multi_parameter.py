"""Models over several parameters, from the evidence of combinations of terms."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.entities import CallPath
from insitu.modeling.evidence import noise
from insitu.modeling.evidence.answer import Answer
from insitu.modeling.evidence.best_combinations import BestCombinations, Solution
from insitu.modeling.evidence.combination_fits import MultiParameterBatch, WeighedCombinations
from insitu.modeling.evidence.combinations import structures
from insitu.modeling.evidence.exact_products import find_exact_products
from insitu.modeling.evidence.grid_changes import (
    GridChange,
    find_changes,
    find_suspects,
    group_by_change,
    possible_changes,
)
from insitu.modeling.evidence.learn import Map
from insitu.modeling.evidence.pool import no_answer
from insitu.modeling.evidence.quotient import log_residuals
from insitu.modeling.evidence.repetitions import log_likelihood_of_noise
from insitu.modeling.evidence.shared_deviation import find_shared_deviation, widen
from insitu.modeling.evidence.smaller_grid import apply_smaller_grid
from insitu.modeling.evidence.whole import NOISY
from insitu.modeling.measurement import FloatArray, IntArray
from insitu.modeling.series import Series

# For a call path, the sets of parameters that may occur together in one term.
Dependencies = Mapping[CallPath, Sequence[Sequence[str]]]

MAX_SHARED_ROUNDS = 4  # of removing a shared deviation and fitting again
# Counts such as p - 1 are no function of the hypothesis space, and have one law nevertheless.
MAX_MISFIT_OF_COUNTS = 1e-3  # relative, of the law behind a change
DEPENDENCY_PRIOR = 0.95  # of the sum of just the products that a call path depends on


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
                solved = _solve_pool(batch, members, log_prior, levels, map_=map_)
                if is_count:
                    own = [solved[row] for row in members.tolist()]
                    exact = find_exact_products(series.select(members), own)
                    solved |= {int(members[i]): answer for i, answer in exact.items()}
                answers |= solved
    return [answers.get(row, nothing) for row in range(n_series)]


def solve_with_changes(
    series: Series, dependencies: Dependencies, solve: Callable[[Series], list[Answer]]
) -> list[Answer]:
    """Return one answer per series, of the points behind the last change where behaviour changes.

    Args:
        series: over several parameters. dependencies: as for `solve_multi_parameter`. solve:
            returns answers that suppose one law.
    """
    answers = solve(series)
    candidates = possible_changes(series.coordinates)
    if not candidates or np.any(series.coordinates <= 0):
        return answers

    is_testable = (series.values > 0).all(axis=1)  # NaN is not
    is_testable &= np.array([answer.quotient is None for answer in answers])
    testable = np.flatnonzero(is_testable)
    residuals = log_residuals(
        [answers[row] for row in testable.tolist()], series.select(testable), series.coordinates
    )
    suspects = testable[find_suspects(residuals, series.coordinates, candidates)]
    are_counts = noise.are_counts(series.values)
    changes: list[GridChange | None] = [None] * len(answers)
    for is_count in (False, True):
        rows = suspects[are_counts[suspects] == is_count]
        if len(rows):
            found = _find_changes(series.select(rows), dependencies, candidates, is_count=is_count)
            for row, change in zip(rows.tolist(), found, strict=True):
                changes[row] = change

    for change, rows in group_by_change(changes).items():
        behind = np.flatnonzero(change.is_behind(series.coordinates))
        part = series.select(rows).at_points(behind)
        of_part = solve_with_changes(part, dependencies, solve)
        misfit = np.abs(log_residuals(of_part, part, part.coordinates)).max(axis=1)
        is_inexact = are_counts[rows] & (misfit > MAX_MISFIT_OF_COUNTS)
        for row, answer, inexact in zip(rows.tolist(), of_part, is_inexact.tolist(), strict=True):
            if answer.grid_changes or not inexact:
                answers[row] = answer._replace(grid_changes=(change, *answer.grid_changes))
    return answers


def _find_changes(
    series: Series, dependencies: Dependencies, candidates: Sequence[GridChange], *, is_count: bool
) -> list[GridChange | None]:
    """The change of each series, all of which are counts or none is."""
    levels = noise.COUNT_LEVELS if is_count else noise.LEVELS
    structure_prior = _structure_priors(series, dependencies)
    all_rows = np.arange(len(series.values))

    def weigh(part: Series) -> FloatArray:
        weighed = MultiParameterBatch(part).weigh(all_rows, levels, structure_prior)
        return np.asarray(np.logaddexp.reduce(weighed.log_evidence_of_all(), axis=1))

    scatter = log_likelihood_of_noise(series, levels)
    return find_changes(series, candidates, weigh, scatter + np.log(noise.noise_prior(levels)))


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
    """The answers of series that share a distribution of noise, and perhaps a deviation per run."""
    solved = _solve_independently(batch.select(members), log_prior[members], levels, map_)
    is_count = levels[0] < noise.LEVELS[0]
    coordinates = batch.series.coordinates
    if is_count or np.any(coordinates <= 0):
        return dict(zip(members.tolist(), solved.answers, strict=True))

    # A deviation that the series share is removed from the data, and what is left of it again.
    shared, corrected = None, batch.select(members)
    logarithms = np.zeros(len(coordinates))
    for _ in range(MAX_SHARED_ROUNDS):
        ratio = corrected.relative / np.where(solved.means > 0, solved.means, np.nan)
        is_usable = (corrected.repetitions > 0) & (ratio > 0)
        residuals = np.log(np.where(is_usable, ratio, np.nan))
        laws = None if shared is None else shared.laws
        deviation = find_shared_deviation(residuals, solved.sigmas, coordinates, laws=laws)
        if deviation is None:
            break
        shared = deviation if shared is None else shared
        logarithms += np.where(shared.is_shared.any(), deviation.logarithms, 0.0)
        factors = np.where(shared.is_shared[:, None], np.exp(logarithms), 1.0)
        corrected = batch.select(members).divide(factors)
        solved = _solve_independently(corrected, log_prior[members], levels, map_)

    def solve_on(smaller: MultiParameterBatch, rows: IntArray) -> Solution:
        return _solve_independently(smaller, log_prior[members[rows]], levels, map_)

    answers = apply_smaller_grid(corrected, solved, solve_on)
    if shared is not None:
        answers = [
            widen(answer, logarithms, len(batch.parameters)) if is_shared else answer
            for answer, is_shared in zip(answers, shared.is_shared.tolist(), strict=True)
        ]
    return dict(zip(members.tolist(), answers, strict=True))


def _solve_independently(
    batch: MultiParameterBatch, log_prior: FloatArray, levels: FloatArray, map_: Map
) -> Solution:
    """Solve all series of a batch; the distribution of noise is learnt from a sample of them."""
    members = np.arange(len(log_prior))
    stride = max(1, -(-len(members) // noise.SAMPLE_SIZE))  # rounded up
    sample = members[::stride]
    sample_chunks = list(_chunks(batch, sample))
    tasks = (_Task(batch.select(rows), log_prior[rows], levels) for rows in sample_chunks)
    weighed = list(map_(_weigh, tasks))

    by_chunk = [np.logaddexp.reduce(chunk.log_evidence_of_all(), axis=1) for chunk in weighed]
    likelihood = np.concatenate(by_chunk)
    likelihood += log_likelihood_of_noise(batch.series.select(sample), levels)
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
    solved = list(map_(_solve, tasks))

    order = np.argsort(np.concatenate(chunks))
    answers = [answer for chunk in solved for answer in chunk.answers]
    return Solution(
        answers=[answers[i] for i in order.tolist()],
        means=np.concatenate([chunk.means for chunk in solved])[order],
        sigmas=np.concatenate([chunk.sigmas for chunk in solved])[order],
    )


def _weigh(task: _Task) -> WeighedCombinations:
    rows = np.arange(len(task.log_prior))
    return task.batch.weigh(rows, task.levels, task.log_prior)


def _solve(task: _Task) -> Solution:
    """Answers of the series; noisy ones a second time, with errors relative to their function."""
    batch, levels = task.batch, task.levels
    rows = np.arange(len(task.log_prior))
    noise_prior = np.exp(log_likelihood_of_noise(batch.series, levels)) * task.noise

    weighed = task.weighed or _weigh(task)
    best = BestCombinations(batch, rows, weighed, noise_prior, levels=levels)
    answers, means, sigmas = best.answers(), best.mean(), best.posterior.sigma

    noisy = np.flatnonzero(sigmas > NOISY)
    if len(noisy):
        size = np.abs(means[noisy])
        weighed = batch.weigh(noisy, levels, task.log_prior[noisy], size=size)
        best = BestCombinations(batch, noisy, weighed, noise_prior[noisy], levels=levels)
        for row, answer in zip(noisy.tolist(), best.answers(), strict=True):
            answers[row] = answer
        means[noisy], sigmas[noisy] = best.mean(), best.posterior.sigma
    return Solution(answers, means, sigmas)


def _chunks(batch: MultiParameterBatch, members: IntArray) -> Iterator[IntArray]:
    size = batch.chunk_size()
    return (members[start : start + size] for start in range(0, len(members), size))
