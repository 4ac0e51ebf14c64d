"""Series that change their behaviour, cut into segments of one function each."""

from collections import defaultdict

import numpy as np

from insitu.modeling.evidence import change_points, noise
from insitu.modeling.evidence.answer import TARGET_FACTOR, Answer, join_segments
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.change_points import ChangePrior, Segmentations
from insitu.modeling.evidence.hypothesis_space import MIN_STEEP_POINTS, exclude_steep_terms
from insitu.modeling.evidence.pool import Pool
from insitu.modeling.evidence.posterior import compute_posterior, fit_hypotheses
from insitu.modeling.evidence.segment import Span
from insitu.modeling.measurement import FloatArray, IntArray


def cut_series(batch: Batch, noise_prior: FloatArray, pool: Pool) -> dict[int, Answer]:
    """Return answers for those of all series here whose behaviour changes.

    Args:
        noise_prior: (s, L), at the levels of the pool.
    """
    rows = np.arange(len(batch.scale))
    is_likely = noise_prior.max(axis=0) > noise.NEGLIGIBLE_PROBABILITY
    noise_prior, levels = noise_prior[:, is_likely], pool.levels[is_likely]
    segmentations = _weigh(batch, rows, levels, pool.change_prior, several=False)

    # More than one cut costs much more: only where one is not improbable.
    min_points = change_points.min_segment_points(len(batch.x))
    if len(batch.x) >= 3 * min_points:
        unchanged = segmentations.count_posterior(noise_prior)[0]
        suspected = np.flatnonzero(1 - unchanged > change_points.SEVERAL_SUSPECTED)
        if len(suspected) == 0:
            return {}
        rows, noise_prior = rows[suspected], noise_prior[suspected]
        segmentations = _weigh(batch, rows, levels, pool.change_prior, several=True)

    return _cut_detected(batch, rows, segmentations, noise_prior, levels)


def _weigh(
    batch: Batch, rows: IntArray, levels: FloatArray, prior: ChangePrior, *, several: bool
) -> Segmentations:
    return change_points.weigh_segmentations(
        batch.data.select(rows), batch.space, levels, x=batch.x, prior=prior, several=several
    )


def _cut_detected(
    batch: Batch,
    rows: IntArray,
    segmentations: Segmentations,
    noise_prior: FloatArray,
    levels: FloatArray,
) -> dict[int, Answer]:
    """Answers of those series in which a change is probable enough."""
    n_points = len(batch.x)
    by_count = segmentations.count_posterior(noise_prior)
    log_change = segmentations.log_evidence_of_change(noise_prior)
    detected = np.flatnonzero(1 - by_count[0] > change_points.DETECTED).tolist()

    # Solve equal segments of all series at once.
    cuts_of: dict[int, tuple[list[int], float]] = {}
    members_of: dict[Span, list[int]] = defaultdict(list)
    for i in detected:
        count = 1 + int(np.argmax(by_count[1:, i]))
        cuts_of[i] = segmentations.best_cuts(i, count, noise_prior[i])
        for span in change_points.segment_spans(cuts_of[i][0], n_points):
            members_of[span].append(i)
    segments: dict[tuple[int, Span], Answer] = {}
    for span, members in members_of.items():
        posterior_noise = segmentations.noise_posterior(np.array(members), noise_prior)
        found = _solve_segment(batch, rows[members], span, posterior_noise, levels)
        for i, answer in zip(members, found, strict=True):
            segments[i, span] = answer

    answers: dict[int, Answer] = {}
    for i, (cuts, probability_of_cuts) in cuts_of.items():
        spans = change_points.segment_spans(cuts, n_points)
        change_probability = float(1 - by_count[0, i]) * probability_of_cuts
        answers[int(rows[i])] = join_segments(
            [segments[i, span] for span in spans], cuts, change_probability
        )._replace(log_evidence=float(log_change[i]))
    return answers


def _solve_segment(
    batch: Batch, rows: IntArray, span: Span, noise_prior: FloatArray, levels: FloatArray
) -> list[Answer]:
    """Answers on some of the points, with the noise of the whole series (s, L)."""
    start, end = span
    space = batch.space
    if end - start < MIN_STEEP_POINTS:
        space = exclude_steep_terms(space)
    candidates = fit_hypotheses(batch.data.select(rows, slice(start, end)), space, levels)

    # Normalise at each level: the noise is known from the whole series, not from this segment.
    log_evidence = candidates.log_evidence
    top = log_evidence.max(axis=1, keepdims=True)
    total = np.log(np.exp(log_evidence - top).sum(axis=1)) + top[:, 0]
    posterior = compute_posterior(log_evidence - total[:, None, :], noise_prior, levels)

    is_last = end == len(batch.x)
    target = batch.x[end - 1] * (TARGET_FACTOR if is_last else 1)
    return batch.choose(rows, candidates, posterior, target=target)
