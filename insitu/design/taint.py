"""Profiles of taint analyses: which parameters reach the loops of a function.

Two forms are read: what perf-taint (an LLVM pass over DataFlowSanitizer) writes, and a list of
labels by function as in [DET Fig. 2], which can easily be written from any such analysis.
"""

from collections.abc import Iterator, Mapping

from insitu.design.dependencies import Dependency, DependencyStatus, Nest, Structure
from insitu.entities import ARROW

Names = frozenset[str]


def parse_taint_profile(data: Mapping[str, object]) -> Structure:
    """Return the dependencies of a profile, all of them `labelled only`.

    Args:
        data: {"functions": {name: …}} with "parameters", as perf-taint writes it, or with "params".

    Raises:
        KeyError, TypeError, ValueError: the profile has another form.
    """
    functions = _mapping(data["functions"], "functions")
    if "parameters" in data:
        return _parse_perf_taint(data, functions)

    dependencies = []
    for name, function in functions.items():
        nests = tuple(_listed_nests(_mapping(function, name)))
        dependencies.append(Dependency(str(name), nests, status=DependencyStatus.LABELLED))
    return Structure(tuple(map(str, _list(data["params"], "params"))), tuple(dependencies))


def _parse_perf_taint(data: Mapping[str, object], functions: Mapping[str, object]) -> Structure:
    names = [str(name) for name in _list(data["functions_names"], "functions_names")]

    nests_by_path: dict[str, dict[Nest, None]] = {}
    for value in functions.values():
        function = _mapping(value, "a function")
        for entry in _list(function["loops"], "loops"):
            loops = _mapping(entry, "an entry of loops")
            nests = dict.fromkeys(map(Nest.of, _parameter_sets(loops)))
            for path in _callpaths(loops, names[int(str(function["func_idx"]))], names):
                nests_by_path.setdefault(path, {}).update(nests)

    dependencies = []
    for path, nests in sorted(nests_by_path.items(), key=lambda item: item[0]):
        nonempty = tuple(nest for nest in nests if nest.factors)
        dependencies.append(Dependency(path, nonempty, status=DependencyStatus.LABELLED))
    return Structure(
        parameters=tuple(map(str, _list(data["parameters"], "parameters"))),
        dependencies=tuple(dependencies),
    )


def _callpaths(entry: Mapping[str, object], name: str, names: list[str]) -> Iterator[str]:
    """Yield the call paths that lead to a function; the profile lists functions by number."""
    for stack in _list(entry.get("callstacks", entry.get("callstack")), "callstacks"):
        numbers = [] if stack is None else _list(stack, "callstacks")
        callers = [names[int(str(number))] for number in numbers]
        yield ARROW.join([*callers, name])


def _parameter_sets(entry: Mapping[str, object]) -> Iterator[Names]:
    """Yield the parameters that act together in a loop nest; in processed profiles, "deps"."""
    if "instance" not in entry:
        for names in _list(entry["deps"], "deps"):
            yield frozenset(map(str, _list(names, "deps")))
        return
    yield from _nested_parameter_sets(entry["instance"], frozenset())


def _nested_parameter_sets(loops: object, outer: Names) -> Iterator[Names]:
    """Yield for each loop its own parameters together with those of the loops around it.

    A loop that ran in several variants is a list. What a loop calls is listed with the callee. Each
    exit of a loop has its own set of parameters; branches in it may multiply with any of them.
    """
    for variants in _mapping(loops, "loops").values():
        for variant in variants if isinstance(variants, list) else [variants]:
            loop = _mapping(variant, "a loop")
            if "level" not in loop:
                if "function_idx" not in loop:
                    yield from _nested_parameter_sets(loop, outer)
                continue

            exits = _exit_parameters(loop, outer)
            yield from exits
            for parameters in exits:
                yield from _nested_parameter_sets(loop.get("loops") or {}, parameters)


def _exit_parameters(loop: Mapping[str, object], outer: Names) -> list[Names]:
    """Return the parameters of each exit of a loop; of the loop without exits if it has none."""
    in_branches: set[str] = set()
    for names in _mapping(loop.get("branches") or {}, "branches").values():
        in_branches.update(map(str, _list(names, "branches")))

    exits = []
    for names in _list(loop.get("params") or [], "params"):
        exits.append(outer | in_branches | set(map(str, _list(names, "params"))))
    return exits or [outer | in_branches]


def _listed_nests(function: Mapping[str, object]) -> Iterator[Nest]:
    """Yield nests from names, or from lists of names for nested loops; MPI adds its parameters."""
    for kind in ("loops", "MPI"):
        for names in _list(function.get(kind) or [], kind):
            yield Nest.of([names] if isinstance(names, str) else map(str, _list(names, kind)))


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be an object")
    return value


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{what} must be a list")
    return value
