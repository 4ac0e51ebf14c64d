"""Series that change their behaviour, cut into segments of one function each."""

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from insitu.modeling.evidence import change_points, noise
from insitu.modeling.evidence.answer import TARGET_FACTOR, Answer, join_segments
from insitu.modeling.evidence.batch import Batch
from insitu.modeling.evidence.change_points import ChangePrior, Segmentations, Segments
from insitu.modeling.evidence.cut_positions import ALL_UP_TO, cuts_near
from insitu.modeling.evidence.hypothesis_space import MIN_STEEP_POINTS, exclude_steep_terms
from insitu.modeling.evidence.normal_equations import Candidates
from insitu.modeling.evidence.pool import Pool
from insitu.modeling.evidence.posterior import compute_posterior, fit_hypotheses
from insitu.modeling.evidence.segment import Span
from insitu.modeling.measurement import FloatArray, IntArray

LOW_LEVELS = np.array([1e-6, 1e-5, 1e-4])  # of noise, in segments of series that have hardly any


def cut_series(batch: Batch, noise_prior: FloatArray, pool: Pool) -> dict[int, Answer]:
    """Return answers for those of all series here whose behaviour changes.

    Args:
        noise_prior: (s, L), at the levels of the pool.
    """
    rows, noise_of_segments = np.arange(len(batch.scale)), noise_prior
    noise_prior = change_points.apply_noise_floor(noise_prior, pool.levels)
    is_likely = noise_prior.max(axis=0) > noise.NEGLIGIBLE_PROBABILITY
    noise_prior, levels = noise_prior[:, is_likely], pool.levels[is_likely]
    known = pool.segments.find(rows, levels) if pool.segments else None
    segmentations = _weigh(batch, rows, levels, pool.change_prior, several=False, known=known)

    # More than one cut costs much more: only where one is not improbable.
    min_points = change_points.min_segment_points(len(batch.x))
    if len(batch.x) >= 3 * min_points:
        unchanged = segmentations.count_posterior(noise_prior)[0]
        suspected = np.flatnonzero(1 - unchanged > change_points.SEVERAL_SUSPECTED)
        if len(suspected) == 0:
            return {}
        rows, noise_prior = rows[suspected], noise_prior[suspected]
        known = {
            span: segment.select(suspected) for span, segment in segmentations.segments.items()
        }
        segmentations = _weigh(batch, rows, levels, pool.change_prior, several=True, known=known)

    detected = _detect(segmentations, noise_prior)
    if len(batch.x) > ALL_UP_TO:
        for i, change in detected.items():
            detected[i] = _cut_nearby(
                batch,
                rows[i : i + 1],
                levels,
                prior=pool.change_prior,
                change=change,
                noise_prior=noise_prior[i],
            )
    return _solve_segments(
        batch, rows, detected, noise_prior=noise_of_segments[rows], levels=pool.levels
    )


def _weigh(
    batch: Batch,
    rows: IntArray,
    levels: FloatArray,
    prior: ChangePrior,
    *,
    several: bool,
    cuts: list[int] | None = None,
    known: Segments | None = None,
) -> Segmentations:
    return change_points.weigh_segmentations(
        batch.data.select(rows),
        batch.space,
        levels,
        x=batch.x,
        prior=prior,
        several=several,
        cuts=cuts,
        known=known,
    )


def _cut_nearby(
    batch: Batch,
    row: IntArray,
    levels: FloatArray,
    *,
    prior: ChangePrior,
    change: "_Change",
    noise_prior: FloatArray,
) -> "_Change":
    """The change of one series (1,) if segments may begin at all points near its cuts.

    It may have fewer cuts then: two of them may have approximated one that was not possible.
    """
    cuts = cuts_near(change.cuts, batch.x)
    near = _weigh(batch, row, levels, prior, several=len(change.cuts) > 1, cuts=cuts)
    count = 1 + int(np.argmax(near.count_posterior(noise_prior[None])[1:, 0]))
    best, share = near.best_cuts(0, count, noise_prior)
    return replace(change, cuts=best, probability=change.somewhere * share)


@dataclass(frozen=True, slots=True)
class _Change:
    """The most probable cuts of a series, and what speaks for them.

    probability: that behaviour changes, and just there. somewhere: that it changes at all.
    log_evidence: of any change.
    """

    cuts: list[int]
    probability: float
    somewhere: float
    log_evidence: float


def _detect(segmentations: Segmentations, noise_prior: FloatArray) -> dict[int, _Change]:
    """The series in which a change is probable enough, by row."""
    by_count = segmentations.count_posterior(noise_prior)
    log_change = segmentations.log_evidence_of_change(noise_prior)

    changes: dict[int, _Change] = {}
    for i in np.flatnonzero(1 - by_count[0] > change_points.DETECTED).tolist():
        count = 1 + int(np.argmax(by_count[1:, i]))
        cuts, share = segmentations.best_cuts(i, count, noise_prior[i])
        somewhere = float(1 - by_count[0, i])
        changes[i] = _Change(cuts, somewhere * share, somewhere, float(log_change[i]))
    return changes


def _solve_segments(
    batch: Batch,
    rows: IntArray,
    changes: dict[int, _Change],
    *,
    noise_prior: FloatArray,
    levels: FloatArray,
) -> dict[int, Answer]:
    """Answers of the series that change, one function per segment.

    Whether behaviour changes is judged with a least noise, since small deviations from a function
    are no change. The functions of the segments are not: they are exact where there is no noise.

    Args:
        changes: by position in `rows` (s,). noise_prior: (s, L), without a least noise.
    """
    members_of: dict[Span, list[int]] = defaultdict(list)
    for i, change in changes.items():
        for span in change_points.segment_spans(change.cuts, len(batch.x)):
            members_of[span].append(i)

    # Fit equal segments of all series at once, and learn the noise from all segments of a series.
    levels, log_noise = _with_low_levels(levels, noise_prior)
    fits: dict[Span, Candidates] = {}
    for span, members in members_of.items():
        fits[span] = _fit_segment(batch, rows[members], span, levels)
        log_noise[members] += np.logaddexp.reduce(fits[span].log_evidence, axis=1)
    top = log_noise.max(axis=1, keepdims=True)
    posterior_noise = np.exp(log_noise - top)
    posterior_noise /= posterior_noise.sum(axis=1, keepdims=True)

    segments: dict[tuple[int, Span], Answer] = {}
    for span, members in members_of.items():
        found = _choose(
            batch,
            rows[members],
            span,
            candidates=fits[span],
            noise=posterior_noise[members],
            levels=levels,
        )
        for i, answer in zip(members, found, strict=True):
            segments[i, span] = answer

    answers: dict[int, Answer] = {}
    for i, change in changes.items():
        spans = change_points.segment_spans(change.cuts, len(batch.x))
        of_spans = [segments[i, span] for span in spans]
        answer = join_segments(of_spans, change.cuts, change.probability)
        answers[int(rows[i])] = answer._replace(
            probability=change.somewhere * answer.probability,
            log_evidence=change.log_evidence,
        )
    return answers


def _with_low_levels(levels: FloatArray, noise_prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The levels of noise and some below, and the log prior of each: (L',) and (s, L').

    The lowest level stands for all noise that is as small or smaller. Its prior is divided evenly
    among itself and the levels below.
    """
    low = LOW_LEVELS[0.5 * levels[0] > LOW_LEVELS]
    shared = noise_prior[:, :1] / (1 + len(low))
    prior = np.hstack([np.repeat(shared, 1 + len(low), axis=1), noise_prior[:, 1:]])
    return np.concatenate([low, levels]), np.log(np.maximum(prior, 1e-300))


def _fit_segment(batch: Batch, rows: IntArray, span: Span, levels: FloatArray) -> Candidates:
    start, end = span
    space = batch.space
    if end - start < MIN_STEEP_POINTS:
        space = exclude_steep_terms(space)
    data = batch.data.select(rows, slice(start, end))
    return fit_hypotheses(data, space, levels, may_be_exact=True)


def _choose(
    batch: Batch,
    rows: IntArray,
    span: Span,
    *,
    candidates: Candidates,
    noise: FloatArray,
    levels: FloatArray,
) -> list[Answer]:
    """Answers on some of the points, with the noise of the whole series (s, L)."""
    # Normalise at each level: the noise is known from the whole series, not from this segment.
    log_evidence = candidates.log_evidence
    top = log_evidence.max(axis=1, keepdims=True)
    total = np.log(np.exp(log_evidence - top).sum(axis=1)) + top[:, 0]
    posterior = compute_posterior(log_evidence - total[:, None, :], noise, levels)

    is_last = span[1] == len(batch.x)
    target = batch.x[span[1] - 1] * (TARGET_FACTOR if is_last else 1)
    return batch.choose(rows, candidates, posterior, target=target)
