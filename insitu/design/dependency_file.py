"""Reads the dependencies that `insitu detect` writes, or the profile of a taint analysis."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from insitu.design.dependencies import (
    Dependency,
    DependencyStatus,
    Nest,
    Structure,
    at_callpaths,
)
from insitu.design.taint import parse_taint_profile
from insitu.entities import ARROW, CallPath
from insitu.errors import UsageError

EXPONENT_LIMIT = 64  # larger exponents are a mistake in the file, and slow to compute with


def load_structure(path: str) -> Structure:
    """Read the file `path`, see `read_structure`.

    Raises:
        UsageError: the file cannot be read, or has another form.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise UsageError(
            f"{path}: cannot be read: {reason}; create it with `insitu detect`"
        ) from error
    return read_structure(text, path)


def read_structure(text: str, where: str) -> Structure:
    """Parse what `Structure.to_json` wrote, or the profile of a taint analysis, see `taint.py`.

    Args:
        text: JSON.
        where: the file's name, for errors.

    Raises:
        UsageError: the text is not JSON, or has another form.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON: {error}") from error

    try:
        if "functions" in data:
            return parse_taint_profile(data)
        return _parse_structure(data)
    except (LookupError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise UsageError(
            f"{where}: not a file of `insitu detect` ({type(error).__name__}: {error}); such a"
            ' file has "parameters" and "callpaths", each call path with its "nests"'
        ) from error


def load_products(
    path: str, callpaths: Iterable[CallPath], parameters: Collection[str]
) -> dict[CallPath, tuple[tuple[str, ...], ...]]:
    """Return the products of parameters on which the work of each call path depends.

    MPI functions are left out, since no count shows how long they wait for other ranks. The result
    is empty if `path` is "", or if the runs vary a parameter that the file does not have.

    Args:
        path: a file of `insitu detect`, or the profile of a taint analysis.
        callpaths: the measured ones.
        parameters: those that the runs vary.

    Raises:
        UsageError: the file cannot be read, or has another form.
    """
    if not path:
        return {}
    structure = replace(load_structure(path), iteration="")  # the runs may vary it
    if not set(parameters) <= set(structure.parameters):
        return {}

    measured = list(callpaths)
    dependencies = at_callpaths(structure, [str(callpath) for callpath in measured])

    products_by_path = {}
    for callpath in measured:
        dependency = dependencies.get(str(callpath))
        if dependency is None or callpath.name.startswith("MPI_"):
            continue
        if dependency.status is DependencyStatus.NONDETERMINISTIC:
            continue

        products: dict[tuple[str, ...], None] = {}
        for nest in dependency.nests:
            product = tuple(name for name in parameters if name in nest.parameters)
            if product:
                products[product] = None
        products_by_path[callpath] = tuple(products)

    return products_by_path


def relevant_patterns(structure: Structure) -> tuple[str, ...]:
    """Return patterns of the functions whose work depends on a parameter, and of their callers.

    Only these need be instrumented [DET §3.3]; with their callers, call paths stay as they were
    detected. MPI functions are always measured. Patterns are those of `insitu run --only`.
    """
    names: dict[str, None] = {}
    for dependency in structure.dependencies:
        # What counts could not decide is measured, too.
        is_undecided = dependency.status is DependencyStatus.NONDETERMINISTIC
        if dependency.nests or dependency.labelled or is_undecided:
            names |= dict.fromkeys(dependency.callpath.split(ARROW))

    patterns = []
    for name in names:
        is_measured_anyway = name.startswith(("MPI_", "PMPI_"))
        if name and not is_measured_anyway and "/" not in name and "\n" not in name:
            patterns.append(re.sub(r"([*?\[])", r"[\1]", name))
    return tuple(patterns)


def parse_derived(text: str) -> tuple[str, tuple[tuple[str, Fraction], ...]]:
    """Parse `spacing=vol/cubes` or `cells=n*n*m` as a name and the powers of its parameters.

    Raises:
        UsageError: the text has another form.
    """
    name, equals, product = (word.strip() for word in text.partition("="))

    powers: dict[str, Fraction] = {}
    sign = 1
    for word in product.replace("*", " * ").replace("/", " / ").split():
        if word in "*/":
            sign = 1 if word == "*" else -1
        elif word.isidentifier():
            powers[word] = powers.get(word, Fraction(0)) + sign
        elif word != "1":
            raise UsageError(f"'{text}': '{word}' is not a parameter; write spacing=vol/cubes")

    if not equals or not name.isidentifier() or not powers:
        raise UsageError(f"'{text}' is not NAME=PRODUCT, as in spacing=vol/cubes")
    return name, tuple(sorted(powers.items()))


def _parse_structure(data: Mapping[str, Any]) -> Structure:  # Any: JSON
    derived = []
    for name, powers in data.get("derived", {}).items():
        derived.append(
            (str(name), tuple((base, _parse_exponent(power)) for base, power in powers.items()))
        )
    return Structure(
        parameters=tuple(map(str, data["parameters"])),
        dependencies=tuple(map(_parse_dependency, data["callpaths"])),
        derived=tuple(derived),
        iteration=str(data.get("iteration", "")),
        ranks=str(data.get("ranks", "")),
    )


def _parse_dependency(row: Mapping[str, Any]) -> Dependency:  # Any: JSON
    return Dependency(
        callpath=str(row["callpath"]),
        nests=tuple(map(_parse_nest, row["nests"])),
        share=float(row.get("share", 0.0)),
        status=DependencyStatus(row.get("status", DependencyStatus.LABELLED)),
        labelled=tuple(map(str, row.get("labelled", ()))),
        refuted=tuple(map(str, row.get("refuted", ()))),
    )


def _parse_nest(data: Mapping[str, object] | list[str]) -> Nest:
    if isinstance(data, list):
        return Nest.of(map(str, data))
    powers = {
        name: None if power is None else _parse_exponent(power) for name, power in data.items()
    }
    return Nest.of(powers)


def _parse_exponent(value: object) -> Fraction:
    power = Fraction(str(value))
    if abs(power) > EXPONENT_LIMIT or power.denominator > EXPONENT_LIMIT:
        raise ValueError(f"exponent {value} is out of range")
    return power
