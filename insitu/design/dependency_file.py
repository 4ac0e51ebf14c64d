"""The file of dependencies that `insitu detect` writes, or that a taint analysis left."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from insitu.design.dependencies import Dependency, DependencyStatus, Nest, Structure, at_callpaths
from insitu.design.taint import parse_taint_profile
from insitu.entities import CallPath
from insitu.errors import UsageError

EXPONENT_LIMIT = 64  # a larger one was never meant, and would be slow to raise to


def load_structure(path: str) -> Structure:
    """Read the file `path`, see `read_structure`.

    Raises:
        UsageError: it cannot be read, or is not of this form.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise UsageError(f"{path}: cannot be read: {reason}; `insitu detect` makes it") from error
    return read_structure(text, path)


def read_structure(text: str, where: str) -> Structure:
    """Read what `Structure.to_json` wrote, or the profile of a taint analysis, see `taint.py`.

    Args:
        text: JSON.
        where: the file's name, for errors.

    Raises:
        UsageError: not JSON, or not of this form.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON: {error}") from error
    try:
        if "functions" in data:
            return parse_taint_profile(data)
        return Structure(
            parameters=tuple(map(str, data["parameters"])),
            dependencies=tuple(
                Dependency(
                    str(one["callpath"]),
                    tuple(_nest(nest) for nest in one["nests"]),
                    float(one.get("share", 0.0)),
                    DependencyStatus(one.get("status", DependencyStatus.LABELLED)),
                    tuple(map(str, one.get("labelled", ()))),
                    tuple(map(str, one.get("refuted", ()))),
                )
                for one in data["callpaths"]
            ),
            derived=tuple(
                (str(name), tuple((base, _exponent(power)) for base, power in powers.items()))
                for name, powers in data.get("derived", {}).items()
            ),
            iteration=str(data.get("iteration", "")),
            ranks=str(data.get("ranks", "")),
        )
    except (LookupError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise UsageError(
            f"{where}: not what `insitu detect` writes ({type(error).__name__}: {error});"
            ' it holds "parameters" and "callpaths", each with its "nests"'
        ) from error


def load_products(
    path: str, callpaths: Iterable[CallPath], parameters: Collection[str]
) -> dict[CallPath, tuple[tuple[str, ...], ...]]:
    """The products of parameters on which work depends, by the file `path`; {} for "".

    What waits for other ranks is left out, since no count tells it, and everything where runs vary
    a parameter that the file does not know.

    Args:
        path: what `insitu detect` wrote, or the profile of a taint analysis.
        callpaths: that were measured.
        parameters: that the runs vary.

    Raises:
        UsageError: the file cannot be read, or is not of this form.
    """
    if not path:
        return {}
    structure = replace(load_structure(path), iteration="")  # runs may vary it
    if not set(parameters) <= set(structure.parameters):
        return {}
    known = at_callpaths(structure, [str(one) for one in callpaths])
    return {
        one: tuple(
            dict.fromkeys(
                product
                for nest in known[str(one)].nests
                if (product := tuple(name for name in parameters if name in nest.parameters))
            )
        )
        for one in callpaths
        if str(one) in known
        and known[str(one)].status is not DependencyStatus.NONDETERMINISTIC
        and not one.name.startswith("MPI_")
    }


def parse_derived(text: str) -> tuple[str, tuple[tuple[str, Fraction], ...]]:
    """Read `spacing=vol/cubes` or `cells=n*n*m` as a name and the powers of its parameters.

    Raises:
        UsageError: it does not look like that.
    """
    name, equals, product = (part.strip() for part in text.partition("="))
    powers: dict[str, Fraction] = {}
    sign = 1
    for word in product.replace("*", " * ").replace("/", " / ").split():
        if word in "*/":
            sign = 1 if word == "*" else -1
        elif word.isidentifier():
            powers[word] = powers.get(word, Fraction(0)) + sign
        elif word != "1":
            raise UsageError(f"'{text}': '{word}' is no parameter; write spacing=vol/cubes")
    if not equals or not name.isidentifier() or not powers:
        raise UsageError(f"'{text}' is not NAME=PRODUCT, as in spacing=vol/cubes")
    return name, tuple(sorted(powers.items()))


def _nest(data: Mapping[str, object] | list[str]) -> Nest:
    if isinstance(data, list):
        return Nest.of(map(str, data))
    return Nest.of(
        {name: None if power is None else _exponent(power) for name, power in data.items()}
    )


def _exponent(value: object) -> Fraction:
    power = Fraction(str(value))
    if abs(power) > EXPONENT_LIMIT or power.denominator > EXPONENT_LIMIT:
        raise ValueError(f"exponent {value} is out of range")
    return power
