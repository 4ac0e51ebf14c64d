"""The default target: the coordinate that every view looks ahead to unless the user names one."""

from collections.abc import Mapping, Sequence

from insitu.entities import RANKS

# Far enough to show which growth matters on the next machine, and no farther than most machines go.
# Exact laws hold that far; predictions that do not are marked as unclear.
TARGET_FACTOR = 64.0  # times the largest measured value
MAX_TARGET_RANKS = 65_536.0


def default_target(
    parameters: Sequence[str], largest: Sequence[float], chosen: Mapping[str, float]
) -> tuple[float, ...]:
    """Return the coordinate to look ahead to.

    The number of ranks, or the first parameter without it, is TARGET_FACTOR times the largest
    measured value; a number of ranks is at most MAX_TARGET_RANKS. The others keep their largest
    measured values.

    Args:
        parameters: names of the parameters; at least one.
        largest: the largest measured value of each.
        chosen: values that campaign.toml or the user names; other names are ignored.
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
    return tuple(map(float, target))
