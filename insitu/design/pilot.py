"""Pilot runs: which tiny configurations tell what depends on what."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from insitu.design.factorial import Levels
from insitu.errors import UsageError

VALUES = 3  # of each parameter: the base and two alternatives
MOST_PARAMETERS = 8  # their pairs alone are 28 runs


def pilot_configurations(levels: Levels) -> list[dict[str, float]]:
    """What to run: the base twice, two alternatives per parameter, every pair, all together.

    12 runs for three parameters, 17 for four. A parameter that works only together with another, as
    in `(a - a0) * b`, is found by the pairs.

    Args:
        levels: three values by parameter; the first is the base.

    Raises:
        UsageError: not three values, or too many parameters.
    """
    for name, of in levels.items():
        if len(set(of)) != VALUES or len(of) != VALUES:
            raise UsageError(
                f"--param {name}: pilots want {VALUES} different values, the base first,"
                f" as in {name}=2,4,8"
            )
    if not 1 <= len(levels) <= MOST_PARAMETERS:
        raise UsageError(f"pilots take 1 to {MOST_PARAMETERS} parameters, not {len(levels)}")
    base = {name: float(of[0]) for name, of in levels.items()}
    second = {name: float(of[1]) for name, of in levels.items()}
    found = [base, dict(base)]
    found += [base | {name: float(value)} for name, of in levels.items() for value in of[1:]]
    for pair in combinations(levels, 2):
        found.append(base | {name: second[name] for name in pair})
    if len(levels) > 2:
        found.append(second)
    return found


def far_configurations(levels: Levels, far: Mapping[str, float]) -> list[dict[str, float]]:
    """What to run to see whether parameters matter farther out.

    The base with one of them there, alone and with the second value of every other parameter, so
    that what works only together is seen.

    Args:
        levels: three values by parameter; the first is the base.
        far: a value by parameter, beyond those.

    Raises:
        UsageError: no such parameter, or the pilots have this value.
    """
    base = {name: float(of[0]) for name, of in levels.items()}
    found = []
    for name, value in far.items():
        if name not in levels:
            raise UsageError(f"--far {name}: no such parameter; there are {', '.join(levels)}")
        if value in levels[name]:
            raise UsageError(f"--far {name}={value:g}: the pilots have this value; go farther out")
        there = base | {name: float(value)}
        others = [other for other in levels if other != name]
        found += [there, *(there | {other: float(levels[other][1])} for other in others)]
    return found


def changed(one: Mapping[str, float], other: Mapping[str, float]) -> Sequence[str]:
    """The parameters whose values differ."""
    return [name for name in one if one[name] != other[name]]
