"""The default target: the coordinate that every view looks ahead to unless the user names one."""

from collections.abc import Mapping, Sequence

import numpy as np

from insitu.entities import RANKS
from insitu.modeling.measurement import FloatArray

# Far enough to show which growth matters on the next machine, and no farther than most machines go.
# Exact laws hold that far; predictions that do not are marked as unclear.
TARGET_FACTOR = 64.0  # times the largest measured value
MAX_TARGET_RANKS = 65_536.0
MIN_PAIRS = 3  # of values of two parameters that changed together


def default_target(
    parameters: Sequence[str],
    largest: Sequence[float],
    chosen: Mapping[str, float],
    measured: FloatArray | None = None,
) -> tuple[float, ...]:
    """Return the coordinate to look ahead to.

    The number of ranks, or the first parameter without it, is TARGET_FACTOR times the largest
    measured value; a number of ranks is at most MAX_TARGET_RANKS. The others keep their largest
    measured values, but those that followed it in all runs follow on.

    Args:
        parameters: names of the parameters; at least one.
        largest: the largest measured value of each.
        chosen: values that campaign.toml or the user names; other names are ignored.
        measured: the measured coordinates, (n, n_parameters), by which parameters follow.
    """
    main = RANKS if RANKS in parameters else parameters[0]

    target = []
    for name, value in zip(parameters, largest, strict=True):
        if name in chosen:
            target.append(chosen[name])
        elif name == main:
            farthest = MAX_TARGET_RANKS if name == RANKS else TARGET_FACTOR * value
            target.append(max(min(TARGET_FACTOR * value, farthest), value))
        else:
            target.append(value)

    along = list(parameters).index(main)
    for i, name in enumerate(parameters):
        if measured is not None and i != along and name not in chosen:
            pairs = joint_values(measured[:, [along, i]])
            if pairs is not None:
                target[i] = follow(pairs, target[along])
    return tuple(map(float, target))


def joint_values(columns: FloatArray) -> FloatArray | None:
    """The pairs of values of two parameters that changed together, (n_pairs, 2), ascending.

    None where a value of one was measured with several values of the other, where the other one
    moves up and down as the first one grows, or where values are not positive.

    Args:
        columns: their values at all coordinates, (n, 2).
    """
    pairs = np.unique(columns, axis=0)
    counts = [len(np.unique(pairs[:, column])) for column in (0, 1)]
    if not MIN_PAIRS <= len(pairs) == counts[0] == counts[1] or not pairs.min() > 0:
        return None
    steps = np.diff(pairs[:, 1])
    return np.asarray(pairs) if (steps > 0).all() or (steps < 0).all() else None


def follow(pairs: FloatArray, value: float) -> float:
    """The value of the second parameter that goes with one of the first: n = 10 p.

    Args:
        pairs: of values that were measured together, see `joint_values`.
        value: of the first parameter.
    """
    x, y = np.log(pairs).T
    at = np.log(value)
    partner = np.interp(at, x, y)
    if not x[0] <= at <= x[-1]:
        slope, offset = np.polyfit(x, y, 1)
        partner = slope * at + offset
    return float(f"{np.exp(partner):.6g}")  # without the noise of rounding
