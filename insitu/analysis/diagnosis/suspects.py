"""What one or two runs can say: a count that is a multiple of p or p - 1, and ratios."""

import math
from collections.abc import Iterator

import numpy as np

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.laws import multiple_text, quantity_text
from insitu.analysis.diagnosis.machine import is_collective
from insitu.analysis.diagnosis.measurements import LAW_SCALES, Measurements, is_mpi
from insitu.analysis.diagnosis.scales import next_scale
from insitu.analysis.diagnosis.statements import UNCLEAR, Statement
from insitu.entities import (
    BYTES_RECEIVED,
    MESSAGES_RECEIVED,
    MESSAGES_SENT,
    RANKS,
    VISITS,
    CallPath,
)
from insitu.modeling.measurement import FloatArray

LEAST_RANKS = 4  # on fewer ranks, too many counts are multiples of p or p - 1
NEXT_SCALE = 2  # times the largest measured number of ranks: the run that tells
LEAST_COUNT, LEAST_BYTES = 3.0, 4096.0  # less than this does not matter on any number of ranks
LEAST_RATIO = 1.1  # between two scales; a smaller one is not growth
COLLECTING = ("MPI_Allgather", "MPI_Iallgather", "MPI_Alltoall", "MPI_Ialltoall", "MPI_Gather")


def find_suspects(measurements: Measurements) -> Iterator[Statement]:
    """Counts that may grow with p, from runs at one or two scales; never a limit.

    More scales show laws, so nothing is suspected there.

    At one scale, a count must be what a visit for each rank gives: a multiple of p - 1 on a single
    rank, exactly p or p - 1 per visit of the function, or the receive buffer of an operation that
    collects something from every rank. At two scales it must have grown.
    """
    if not 0 < len(measurements.p) < LAW_SCALES or measurements.p[-1] < LEAST_RANKS:
        return

    for owner, members in measurements.members.items():
        if owner.parent is None:
            continue
        calls = [path for path in members if is_mpi(path)]
        pairs = [path for path in calls if not is_collective(path.name)]
        everyone = [path for path in calls if is_collective(path.name)]
        collecting = [path for path in calls if path.name.startswith(COLLECTING)]
        if len(measurements.p) > 1:
            collecting = everyone
        candidates = (
            (pairs, MESSAGES_RECEIVED.name, "1", "receives {} messages"),
            (pairs, MESSAGES_SENT.name, "1", "sends {} messages"),
            (collecting, BYTES_RECEIVED.name, "B", "receives {}"),
            (everyone, VISITS.name, "1", "makes {} collective calls"),
            ([owner], VISITS.name, "1", f"visits {short_name(owner.name)} {{}} times"),
        )
        for candidate in candidates:
            statement = _suspect(measurements, owner, candidate)
            if statement is not None:
                yield statement
                break


def _suspect(
    measurements: Measurements, owner: CallPath, candidate: tuple[list[CallPath], str, str, str]
) -> Statement | None:
    paths, metric, unit, subject = candidate
    if not paths:
        return None

    series = measurements.series(paths, metric)
    values, p = series.statistic(np.max), measurements.p
    if values[-1] < (LEAST_BYTES if unit == "B" else LEAST_COUNT):
        return None

    vector = series.vectors[-1][0]
    is_single = np.count_nonzero(vector > 0.5 * vector.max()) == 1
    visited = owner.parent if paths == [owner] else owner
    visits = measurements.series([visited] if visited else [], VISITS.name).statistic(np.max)
    per_visit = values / np.maximum(visits, 1.0)
    if len(p) == 1 and not is_single and unit != "B" and not _is_one_per_rank(per_visit, p):
        return None

    multiple = _multiple(values, p, is_collected=unit == "B")
    if multiple is None and (len(p) == 1 or values[-1] < LEAST_RATIO * values[0]):
        return None

    actor = f"rank {int(np.argmax(vector))}" if is_single else "each rank"
    largest = at_text(RANKS, float(p[-1]))
    next_p = next_scale(p, NEXT_SCALE)
    now = quantity_text(float(values[-1]), unit)
    text = f"{actor} {subject.format(now)} at {largest}"
    law = None
    if len(p) > 1 and values[0] > 0:
        ratio = f"{values[-1] / values[0]:.3g}"
        amount = "much" if unit == "B" else "many"
        text += f", {ratio} times as {amount} as at {at_text(RANKS, float(p[0]))}"
    if multiple is not None:
        law = multiple_text(*multiple, unit)
        text += f", possibly {law}"
    return Statement(
        kind="serial" if is_single else ("bytes" if unit == "B" else "messages"),
        status=UNCLEAR,
        text=f"{text}: run {next_p}",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks=actor if is_single else "all",
        metric=metric,
        unit=unit,
        law=law,
        now=float(values[-1]),
        run=next_p,
    )


def _is_one_per_rank(per_visit: FloatArray, p: FloatArray) -> bool:
    """Whether a visit counts once for each rank, or once for each other rank.

    On up to four ranks, numbers of neighbours look like this.
    """
    return p[-1] > LEAST_RANKS and bool(
        np.allclose(per_visit, p, rtol=1e-9) or np.allclose(per_visit, p - 1, rtol=1e-9)
    )


def _multiple(values: FloatArray, p: FloatArray, *, is_collected: bool) -> tuple[float, str] | None:
    """The factor k and the term of `k p` or `k (p - 1)` if all values follow it exactly.

    Buffers of collective operations have a block for each rank, loops over messages skip their own.
    """
    terms = [("(p - 1)", p - 1), ("p", p)]
    for term, base in reversed(terms) if is_collected else terms:
        if np.any(base <= 0):
            continue
        factors = values / base
        is_whole = math.isclose(factors[0], round(float(factors[0])), rel_tol=1e-9)
        if factors[0] >= 1 and is_whole and np.allclose(factors, factors[0], rtol=1e-9):
            return float(factors[0]), term
    return None
