"""Pilot runs: the tiny configurations whose counts show which call path depends on what."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from insitu.design.factorial import Levels
from insitu.errors import UsageError

VALUES = 3  # of each parameter: the base and two alternatives
PARAMETERS_LIMIT = 8  # their pairs alone are 28 runs


def pilot_configurations(levels: Levels) -> list[dict[str, float]]:
    """Return the pilot runs: the base twice, two alternatives per parameter, every pair, all twice.

    That is 13 runs for three parameters and 18 for four. The pairs find a parameter that acts only
    together with another one, as in `(a - a0) * b`. Equal runs show which counts depend on timing;
    a base on one rank has no messages for which ranks could poll.

    Args:
        levels: three values by parameter; the first is the base.

    Raises:
        UsageError: a parameter does not have three values, or there are too many parameters.
    """
    for name, values in levels.items():
        if len(set(values)) != VALUES or len(values) != VALUES:
            raise UsageError(
                f"--param {name}: pilot runs need {VALUES} different values, the base first,"
                f" as in {name}=2,4,8"
            )

    if not 1 <= len(levels) <= PARAMETERS_LIMIT:
        raise UsageError(f"pilot runs take 1 to {PARAMETERS_LIMIT} parameters, not {len(levels)}")

    base = {name: float(values[0]) for name, values in levels.items()}
    second = {name: float(values[1]) for name, values in levels.items()}

    configurations = [base, dict(base)]
    for name, values in levels.items():
        configurations += [base | {name: float(value)} for value in values[1:]]

    for pair in combinations(levels, 2):
        configurations.append(base | {name: second[name] for name in pair})
    if len(levels) > 2:
        configurations.append(second)
    return [*configurations, dict(second)]


def far_configurations(levels: Levels, far: Mapping[str, float]) -> list[dict[str, float]]:
    """Return the runs that show whether parameters matter at larger values.

    Each parameter takes its far value alone, and together with the second value of every other
    parameter, which shows effects that need both.

    Args:
        levels: three values by parameter; the first is the base.
        far: a value by parameter, beyond those of `levels`.

    Raises:
        UsageError: there is no such parameter, or the pilot runs have this value already.
    """
    base = {name: float(values[0]) for name, values in levels.items()}

    configurations = []
    for name, value in far.items():
        if name not in levels:
            raise UsageError(
                f"--far {name}: no such parameter; the parameters are {', '.join(levels)}"
            )
        if value in levels[name]:
            raise UsageError(
                f"--far {name}={value:g}: the pilot runs have this value already; give a larger one"
            )
        alone = base | {name: float(value)}
        configurations.append(alone)
        for other in levels:
            if other != name:
                configurations.append(alone | {other: float(levels[other][1])})

    return configurations


def changed_parameters(first: Mapping[str, float], second: Mapping[str, float]) -> Sequence[str]:
    """Return the parameters whose values differ."""
    return [name for name in first if first[name] != second[name]]
