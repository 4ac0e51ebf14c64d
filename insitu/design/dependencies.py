"""Which call path depends on which parameter, and how: the input of a design [DET §3.1].

The work of a call path is a sum of *nests*, loops within loops. A nest is a product over the
parameters that set how often it runs. `restrict` of a two-grid solver may do
`vol / procs + cubes / procs`: two nests, with an exponent for each parameter. If only the names are
known, as from a taint analysis, the exponent is None.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from insitu.entities import ARROW
from insitu.errors import UsageError

Monomial = Mapping[str, Fraction]  # a product of powers of parameters


class DependencyStatus(StrEnum):
    """The evidence for a dependency."""

    OBSERVED = "observed"  # counts changed with the parameter
    REFUTED = "refuted"  # an analysis names it, but counts did not change where they should
    LABELLED = "labelled only"  # an analysis or the user names it; no count has shown it
    NONDETERMINISTIC = "non-deterministic"  # counts differ between equal runs


@dataclass(frozen=True, slots=True)
class Nest:
    """One term of the work of a call path: a product over parameters, ordered by name."""

    factors: tuple[tuple[str, Fraction | None], ...]

    @classmethod
    def of(cls, factors: Mapping[str, Fraction | int | None] | Iterable[str]) -> "Nest":
        """Build a nest from exponents by parameter, or from names alone; drop exponents of 0."""
        if not isinstance(factors, Mapping):
            return cls(tuple((name, None) for name in sorted(set(factors))))

        powers = []
        for name, power in sorted(factors.items()):
            if power != 0:
                powers.append((name, None if power is None else Fraction(power)))
        return cls(tuple(powers))

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters on which the nest depends."""
        return frozenset(name for name, _ in self.factors)

    def substitute(self, derived: Mapping[str, Monomial]) -> "Nest":
        """Replace dependent parameters by the independent ones they consist of, and cancel.

        `cubes * spacing` with spacing = vol / cubes is `vol` [DET §5.1.1, Listing 1]. A name
        without an exponent stays a dependency on everything it consists of.
        """
        powers: dict[str, Fraction | None] = {}
        for name, power in self.factors:
            for base, exponent in _independent_powers(name, derived).items():
                sum_before = powers.get(base, Fraction(0))
                if power is None or sum_before is None:
                    powers[base] = None
                else:
                    powers[base] = sum_before + power * exponent
        return Nest.of(powers)

    def __str__(self) -> str:
        numerator = []
        denominator = []
        for name, power in self.factors:
            if power is None or power > 0:
                numerator.append(_format_power(name, power))
            else:
                denominator.append(_format_power(name, -power))
        return " / ".join([" * ".join(numerator) or "1", *denominator])


@dataclass(frozen=True, slots=True)
class Dependency:
    """The work of one call path.

    Attributes:
        callpath: its text, or the name of a function.
        nests: the terms of its work.
        share: of all work at the base configuration.
        status: the evidence for the nests.
        labelled: parameters that an analysis names and no count has shown.
        refuted: parameters that an analysis names although counts do not change with them at
            larger values either. Designs use neither `labelled` nor `refuted`.
    """

    callpath: str
    nests: tuple[Nest, ...] = ()
    share: float = 0.0
    status: DependencyStatus = DependencyStatus.OBSERVED
    labelled: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()

    @property
    def parameters(self) -> frozenset[str]:
        """All parameters on which the call path depends."""
        return frozenset().union(*(nest.parameters for nest in self.nests))


@dataclass(frozen=True, slots=True)
class Structure:
    """What is known about a program before it is measured.

    Attributes:
        parameters: the independent ones, in the user's order.
        dependencies: of the call paths.
        derived: parameters that are products of others, as in spacing = vol / cubes.
        iteration: the parameter that is the number of iterations of the main loop, to which all
            work is proportional; "" if there is none.
        ranks: the parameter that is the number of ranks; "" if none is.
    """

    parameters: tuple[str, ...]
    dependencies: tuple[Dependency, ...]
    derived: tuple[tuple[str, tuple[tuple[str, Fraction], ...]], ...] = ()
    iteration: str = ""
    ranks: str = ""

    def resolve(self) -> tuple[Dependency, ...]:
        """Return the dependencies in independent parameters, without the iteration parameter.

        Raises:
            UsageError: a call path depends on a parameter that is not declared.
        """
        derived = {name: dict(powers) for name, powers in self.derived}

        resolved = []
        for dependency in self.dependencies:
            nests = [nest.substitute(derived) for nest in dependency.nests]
            undeclared = set().union(*(nest.parameters for nest in nests)) - set(self.parameters)
            if undeclared:
                raise UsageError(
                    f"{dependency.callpath} depends on '{min(undeclared)}', which is not a"
                    f" parameter; the parameters are {', '.join(self.parameters)}"
                )

            varied: dict[Nest, None] = {}
            for nest in nests:
                factors = tuple(factor for factor in nest.factors if factor[0] != self.iteration)
                if factors:
                    varied[Nest(factors)] = None
            resolved.append(replace(dependency, nests=tuple(varied)))

        return tuple(resolved)

    def to_json(self) -> str:
        """Return the JSON that `dependency_file.read_structure` reads."""
        derived = {
            name: {base: str(power) for base, power in powers} for name, powers in self.derived
        }
        document = {
            "parameters": list(self.parameters),
            "derived": derived,
            "iteration": self.iteration,
            "ranks": self.ranks,
            "callpaths": [_dependency_row(dependency) for dependency in self.dependencies],
        }
        return json.dumps(document, indent=1)


def add_labels(
    structure: Structure, labels: Mapping[str, Collection[str]], tried: Collection[str] = ()
) -> Structure:
    """Add the parameters that a taint analysis names in addition, for each call path.

    Args:
        structure: from counts, which take precedence.
        labels: parameters by call path.
        tried: parameters whose counts were also examined at larger values than the pilot runs'.
    """
    dependencies = []
    for dependency in structure.dependencies:
        without_count = sorted(set(labels.get(dependency.callpath, ())) - dependency.parameters)
        dependencies.append(
            replace(
                dependency,
                labelled=tuple(name for name in without_count if name not in tried),
                refuted=tuple(name for name in without_count if name in tried),
            )
        )

    return replace(structure, dependencies=tuple(dependencies))


def at_callpaths(structure: Structure, callpaths: Iterable[str]) -> dict[str, Dependency]:
    """Return the dependency of each measured call path, in independent parameters.

    Compilers and valgrind count by function, so their dependencies apply wherever the function is
    called. Python gives comprehensions and lambdas their own frames; their work counts in the frame
    above. The work of a recursive function counts at its first call.

    Raises:
        UsageError: a call path depends on a parameter that is not declared.
    """
    by_name = {dependency.callpath: dependency for dependency in structure.resolve()}
    functions = {name: dependency for name, dependency in by_name.items() if ARROW not in name}

    dependencies = {}
    for path in callpaths:
        counted = counted_path(path)
        function = counted.rpartition(ARROW)[2]
        dependency = by_name.get(counted) or functions.get(function)
        if dependency is not None:
            dependencies[path] = replace(dependency, callpath=path)

    return dependencies


def _dependency_row(dependency: Dependency) -> dict[str, Any]:  # Any: JSON
    nests = [
        {name: None if power is None else str(power) for name, power in nest.factors}
        for nest in dependency.nests
    ]
    return {
        "callpath": dependency.callpath,
        "share": dependency.share,
        "status": str(dependency.status),
        "labelled": list(dependency.labelled),
        "refuted": list(dependency.refuted),
        "nests": nests,
    }


def counted_path(path: str) -> str:
    """Return the call path under which the pilot runs count the work of a measured one."""
    frames: list[str] = []
    for frame in path.split(ARROW):
        if frame in frames:
            del frames[frames.index(frame) + 1 :]
        elif not frame.endswith(">"):  # <lambda>, <listcomp>
            frames.append(frame)
    return ARROW.join(frames)


def _independent_powers(
    name: str, derived: Mapping[str, Monomial], depth: int = 0
) -> dict[str, Fraction]:
    """Express a parameter as powers of independent ones."""
    if name not in derived:
        return {name: Fraction(1)}
    if depth > len(derived):
        raise UsageError(f"the dependent parameter '{name}' is defined by itself")

    powers: dict[str, Fraction] = {}
    for inner, power in derived[name].items():
        for base, exponent in _independent_powers(inner, derived, depth + 1).items():
            powers[base] = powers.get(base, Fraction(0)) + power * exponent
    return powers


def _format_power(name: str, power: Fraction | None) -> str:
    if power is None:
        return f"f({name})"
    if power == 1:
        return name
    return f"{name}^{power}" if power.denominator == 1 else f"{name}^({power})"
