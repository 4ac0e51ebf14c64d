"""Which call path depends on which parameter, and how: what a design is deduced from [DET §3.1].

A call path does its work in *nests*, loops within loops, that add up; a nest is a product over the
parameters that set how often it runs. `restrict` of a two-grid solver may do
`vol / procs + cubes / procs`: two nests, with an exponent for each parameter. Where only the names
are known, as from a taint analysis, the exponent is None.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from insitu.entities import ARROW
from insitu.errors import UsageError

Monomial = Mapping[str, Fraction]  # a product of powers of parameters


class DependencyStatus(StrEnum):
    """How a dependency came to be known."""

    OBSERVED = "observed"  # counts changed with the parameter
    REFUTED = "refuted"  # said by an analysis, but counts did not change where they should
    LABELLED = "labelled only"  # said by an analysis or by the user; no count has shown it
    NONDETERMINISTIC = "non-deterministic"  # counts differ between equal runs


@dataclass(frozen=True, slots=True)
class Nest:
    """One additive part of a call path's work: a product over parameters, ordered by name."""

    factors: tuple[tuple[str, Fraction | None], ...]

    @classmethod
    def of(cls, factors: Mapping[str, Fraction | int | None] | Iterable[str]) -> "Nest":
        """From exponents by parameter, or from names alone; exponents of 0 are no factors."""
        if not isinstance(factors, Mapping):
            return cls(tuple((name, None) for name in sorted(set(factors))))
        return cls(
            tuple(
                (name, None if power is None else Fraction(power))
                for name, power in sorted(factors.items())
                if power != 0
            )
        )

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters on which it depends."""
        return frozenset(name for name, _ in self.factors)

    def substitute(self, derived: Mapping[str, Monomial]) -> "Nest":
        """The same in independent parameters: dependent ones replaced, and what cancels gone.

        `cubes * spacing` with spacing = vol / cubes is `vol` [DET §5.1.1, Listing 1]. A name
        without an exponent stays a dependency on everything that it is made of.
        """
        powers: dict[str, Fraction | None] = {}
        for name, power in self.factors:
            for base, times in _base(name, derived).items():
                before = powers.get(base, Fraction(0))
                unknown = power is None or before is None
                powers[base] = None if unknown else before + power * times  # type: ignore[operator]
        return Nest.of(powers)

    def __str__(self) -> str:
        above = [_power(name, power) for name, power in self.factors if power is None or power > 0]
        below = [_power(name, -power) for name, power in self.factors if power and power < 0]
        text = " * ".join(above) or "1"
        return " / ".join([text, *below])


@dataclass(frozen=True, slots=True)
class Dependency:
    """The work of one call path: its nests, and the share of all work at the base configuration.

    labelled: parameters that an analysis names and no count has shown; refuted: those that it names
    although counts do not change with them where they were tried farther out. No design asks them.
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

    parameters: the independent ones, in the user's order. derived: parameters that are products of
    others, as in spacing = vol / cubes. iteration: the one that says how often the main loop runs,
    all work being proportional to it; empty where there is none. ranks: the one that is the number
    of ranks; empty where none is.
    """

    parameters: tuple[str, ...]
    dependencies: tuple[Dependency, ...]
    derived: tuple[tuple[str, tuple[tuple[str, Fraction], ...]], ...] = ()
    iteration: str = ""
    ranks: str = ""

    def resolve(self) -> tuple[Dependency, ...]:
        """The dependencies in independent parameters, without the iteration parameter.

        Raises:
            UsageError: a call path depends on a parameter that is not known.
        """
        derived = {name: dict(powers) for name, powers in self.derived}
        found = []
        for one in self.dependencies:
            nests = [nest.substitute(derived) for nest in one.nests]
            unknown = sorted(set().union(*(n.parameters for n in nests)) - set(self.parameters))
            if unknown:
                raise UsageError(
                    f"{one.callpath} depends on '{unknown[0]}', which is no parameter;"
                    f" there are {', '.join(self.parameters)}"
                )
            bare = [
                Nest(tuple(part for part in nest.factors if part[0] != self.iteration))
                for nest in nests
            ]
            kept = tuple(dict.fromkeys(nest for nest in bare if nest.factors))
            found.append(replace(one, nests=kept))
        return tuple(found)

    def to_json(self) -> str:
        """What `dependency_file.read_structure` reads."""
        return json.dumps(
            {
                "parameters": list(self.parameters),
                "derived": {
                    name: {base: str(power) for base, power in powers}
                    for name, powers in self.derived
                },
                "iteration": self.iteration,
                "ranks": self.ranks,
                "callpaths": [
                    {
                        "callpath": one.callpath,
                        "share": one.share,
                        "status": str(one.status),
                        "labelled": list(one.labelled),
                        "refuted": list(one.refuted),
                        "nests": [
                            {
                                name: None if power is None else str(power)
                                for name, power in nest.factors
                            }
                            for nest in one.nests
                        ],
                    }
                    for one in self.dependencies
                ],
            },
            indent=1,
        )


def add_labels(
    structure: Structure, labels: Mapping[str, Collection[str]], tried: Collection[str] = ()
) -> Structure:
    """The same with what a taint analysis names besides, for each call path.

    Args:
        structure: as counts have it, which decide.
        labels: parameters by call path.
        tried: parameters whose counts were looked at farther out than in the pilots.
    """
    found = []
    for one in structure.dependencies:
        silent = sorted(set(labels.get(one.callpath, ())) - one.parameters)
        found.append(
            replace(
                one,
                labelled=tuple(name for name in silent if name not in tried),
                refuted=tuple(name for name in silent if name in tried),
            )
        )
    return replace(structure, dependencies=tuple(found))


def at_callpaths(structure: Structure, callpaths: Iterable[str]) -> dict[str, Dependency]:
    """The dependency of each call path that was measured, in independent parameters.

    Compilers and valgrind count functions: what they say holds wherever the function is called.
    Python gives comprehensions and lambdas frames of their own, whose work counts above them; that
    of a function that is called within itself counts where it was called first.

    Raises:
        UsageError: a call path depends on a parameter that is not known.
    """
    found = {one.callpath: one for one in structure.resolve()}
    functions = {name: one for name, one in found.items() if ARROW not in name}
    answer = {}
    for path in callpaths:
        named = _counted_at(path)
        one = found.get(named) or functions.get(named.rpartition(ARROW)[2])
        if one is not None:
            answer[path] = replace(one, callpath=path)
    return answer


def _counted_at(path: str) -> str:
    frames: list[str] = []
    for frame in path.split(ARROW):
        if frame in frames:
            del frames[frames.index(frame) + 1 :]
        elif not frame.endswith(">"):
            frames.append(frame)
    return ARROW.join(frames)


def _base(name: str, derived: Mapping[str, Monomial], depth: int = 0) -> dict[str, Fraction]:
    """A parameter in independent ones."""
    if name not in derived:
        return {name: Fraction(1)}
    if depth > len(derived):
        raise UsageError(f"the dependent parameter '{name}' is defined by itself")
    powers: dict[str, Fraction] = {}
    for inner, power in derived[name].items():
        for base, times in _base(inner, derived, depth + 1).items():
            powers[base] = powers.get(base, Fraction(0)) + power * times
    return powers


def _power(name: str, power: Fraction | None) -> str:
    if power is None:
        return f"f({name})"
    return (
        name if power == 1 else f"{name}^{power}" if power.denominator == 1 else f"{name}^({power})"
    )
