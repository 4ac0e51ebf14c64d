"""A rank that exchanges messages with all others, but only from some number of ranks on.

Programs change their algorithm where a buffer no longer suffices, or where a table says so. On
fewer ranks there is no such message, so that no law passes through all scales.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.growth import estimated_growth
from insitu.analysis.diagnosis.laws import TERMS, ExactLaw, LawFactor, is_constant
from insitu.analysis.diagnosis.limit import Limit, is_once
from insitu.analysis.diagnosis.machine import Machine, is_collective
from insitu.analysis.diagnosis.measurements import Measurements, RankSeries, is_mpi
from insitu.analysis.diagnosis.scales import next_scale
from insitu.entities import (
    BYTES_RECEIVED,
    BYTES_SENT,
    MESSAGES_RECEIVED,
    MESSAGES_SENT,
    RANKS,
    CallPath,
)
from insitu.modeling.measurement import FloatArray

LEAST_WITHOUT = 2  # scales of several ranks without a message, before those that have some
LEAST_WITH = 2  # scales with messages, which tell so many for each other rank from any other growth
LINEAR = ("p", "(p - 1)")
VERBS = (
    ("receives", MESSAGES_RECEIVED.name, BYTES_RECEIVED.name),
    ("sends", MESSAGES_SENT.name, BYTES_SENT.name),
)


def find_appearing_funnels(
    measurements: Measurements, machine: Machine, target: float
) -> Iterator[Limit]:
    """Calls by which a single rank exchanges as many messages with each other rank, at the last
    scales only."""
    for owner, members in measurements.members.items():
        for path in members:
            if not is_mpi(path) or is_collective(path.name):
                continue
            for verb in VERBS:
                limit = _find_funnel(measurements, machine, target, path=path, verb=verb)
                if limit is not None:
                    yield replace(limit, path=owner, is_once=is_once(measurements, owner))


def _find_funnel(
    measurements: Measurements,
    machine: Machine,
    target: float,
    *,
    path: CallPath,
    verb: tuple[str, str, str],
) -> Limit | None:
    p = measurements.p
    text, metric, in_bytes = verb
    messages = measurements.series([path], metric)
    first = _first_with_any(p, messages)
    rank = _only_rank(messages, first) if first is not None else None
    if first is None or rank is None:
        return None
    law = _linear_law(p, messages.statistic(np.max), first)
    if law is None:
        return None

    growth = estimated_growth(law, p, low=law.at(target), high=law.at(target), single=rank)
    size = float(measurements.series([path], in_bytes).statistic(np.max)[-1]) / growth.now
    price = machine.message_s(size)
    return Limit(
        kind="serial",
        path=path,
        metric=metric,
        unit="1",
        growth=growth,
        cost=lambda ranks: price * law.at(ranks),
        is_once=False,
        subject=f"{text} {{}} messages",
        detail=path,
        condition=f"if it goes on as from {at_text(RANKS, float(p[first]))} on, where it begins",
        run=next_scale(p, 2.0),
    )


def _first_with_any(p: FloatArray, series: RankSeries) -> int | None:
    """The first scale with messages, by its index; None unless several before it have none."""
    has_any = series.statistic(np.max) > 0
    without = int(np.sum(~has_any & (p > 1)))
    first = len(p) - int(np.sum(has_any))
    is_beginning = not has_any[:first].any() and without >= LEAST_WITHOUT
    return first if is_beginning and len(p) - first >= LEAST_WITH else None


def _only_rank(series: RankSeries, first: int) -> int | None:
    """The only rank with messages at all scales from the first on, by its index."""
    ranks = set[int]()
    for group in series.vectors[first:]:
        for vector in group:
            with_any = np.flatnonzero(vector).tolist()
            if len(with_any) != 1:
                return None
            ranks.update(with_any)
    return ranks.pop() if len(ranks) == 1 else None


def _linear_law(p: FloatArray, values: FloatArray, first: int) -> ExactLaw | None:
    """So much for each other rank, or for each rank, from the first scale on."""
    for term in TERMS:
        if term.name in LINEAR:
            ratios = values[first:] / term.values(p[first:])
            if is_constant(ratios):
                factor = LawFactor(coefficient=float(np.median(ratios)), term=term)
                return ExactLaw((factor,), len(p) - first, len(p))
    return None
