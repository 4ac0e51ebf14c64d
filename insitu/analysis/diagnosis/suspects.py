"""What one or two runs can say: a count that is a multiple of p or p - 1, and ratios."""

import math
from collections.abc import Iterator

import numpy as np

from insitu.analysis.diagnosis.budget import at_text
from insitu.analysis.diagnosis.laws import quantity_text
from insitu.analysis.diagnosis.machine import is_collective
from insitu.analysis.diagnosis.measurements import Measurements, is_mpi
from insitu.analysis.diagnosis.statements import UNCLEAR, Statement
from insitu.entities import (
    BYTES_RECEIVED,
    MESSAGES_RECEIVED,
    MESSAGES_SENT,
    RANKS,
    VISITS,
    CallPath,
)

LEAST_RANKS = 4  # on fewer ranks, too many counts are multiples of p or p - 1
NEXT_SCALE = 2  # times the largest measured number of ranks: the run that tells
LAW_SCALES = 3


def find_suspects(measurements: Measurements) -> Iterator[Statement]:
    """Counts that may grow with p, from runs at one or two scales; never a limit.

    At two scales the count must grow in proportion to p or p - 1.
    """
    if not len(measurements.p) or measurements.p[-1] < LEAST_RANKS:
        return

    for owner, members in measurements.members.items():
        if owner.parent is None:
            continue
        calls = [path for path in members if is_mpi(path)]
        pairs = [path for path in calls if not is_collective(path.name)]
        everyone = [path for path in calls if is_collective(path.name)]
        candidates = (
            (pairs, MESSAGES_RECEIVED.name, "1", "receives {} messages"),
            (pairs, MESSAGES_SENT.name, "1", "sends {} messages"),
            (everyone, BYTES_RECEIVED.name, "B", "receives {}"),
            ([owner], VISITS.name, "1", f"visits {owner.name} {{}} times"),
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
    multiple = _multiple(values, p)
    if multiple is None or values[-1] <= 0:
        return None

    law = f"{quantity_text(multiple[0], unit)} {multiple[1]}".replace("1 p", "p", 1)
    vector = series.vectors[-1][0]
    is_single = np.count_nonzero(vector > 0.5 * vector.max()) == 1
    actor = f"rank {int(np.argmax(vector))}" if is_single else "each rank"
    next_p = at_text(RANKS, NEXT_SCALE * float(p[-1]))
    now = quantity_text(float(values[-1]), unit)
    return Statement(
        kind="serial" if is_single else ("bytes" if unit == "B" else "messages"),
        status=UNCLEAR,
        text=f"{actor} {subject.format(now)} at {at_text(RANKS, float(p[-1]))},"
        f" possibly {law}: run {next_p}",
        callpath=str(owner),
        where=measurements.where(owner),
        ranks=actor if is_single else "all",
        metric=metric,
        unit=unit,
        law=law,
        now=float(values[-1]),
        run=next_p,
    )


def _multiple(values: np.ndarray, p: np.ndarray) -> tuple[float, str] | None:
    """The factor k and the term of `k p` or `k (p - 1)` if all values follow it exactly."""
    for term, base in (("(p - 1)", p - 1), ("p", p)):
        if np.any(base <= 0):
            continue
        factors = values / base
        is_whole = math.isclose(factors[0], round(float(factors[0])), rel_tol=1e-9)
        if factors[0] >= 1 and is_whole and np.allclose(factors, factors[0], rtol=1e-9):
            return float(factors[0]), term
    return None
