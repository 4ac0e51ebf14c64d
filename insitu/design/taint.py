"""Profiles of taint analyses: which parameters reach the loops of a function, without a form.

Two are read: what perf-taint (an LLVM pass over DataFlowSanitizer) writes, and a list of labels by
function as [DET Fig. 2] has it, which is easily written from any such analysis.
"""

from collections.abc import Iterator, Mapping

from insitu.design.dependencies import Dependency, DependencyStatus, Nest, Structure
from insitu.entities import ARROW

Set = frozenset[str]


def parse_taint_profile(data: Mapping[str, object]) -> Structure:
    """What a profile says, every statement `labelled only`.

    Args:
        data: {"functions": {name: …}} with "parameters", as perf-taint has it, or with "params".

    Raises:
        KeyError, TypeError, ValueError: it is not of such a form.
    """
    functions = _mapping(data["functions"], "functions")
    if "parameters" not in data:
        dependencies = [
            Dependency(
                str(name), tuple(_labels(_mapping(one, name))), status=DependencyStatus.LABELLED
            )
            for name, one in functions.items()
        ]
        return Structure(tuple(map(str, _list(data["params"], "params"))), tuple(dependencies))
    names = [str(name) for name in _list(data["functions_names"], "functions_names")]
    found: dict[str, dict[Nest, None]] = {}
    for one in functions.values():
        function = _mapping(one, "a function")
        for entry in _list(function["loops"], "loops"):
            calls = _mapping(entry, "an entry of loops")
            nests = dict.fromkeys(map(Nest.of, _sets(calls)))
            for path in _callpaths(calls, names[int(str(function["func_idx"]))], names):
                found.setdefault(path, {}).update(nests)
    return Structure(
        parameters=tuple(map(str, _list(data["parameters"], "parameters"))),
        dependencies=tuple(
            Dependency(
                path,
                tuple(nest for nest in nests if nest.factors),
                status=DependencyStatus.LABELLED,
            )
            for path, nests in sorted(found.items())
        ),
    )


def _callpaths(entry: Mapping[str, object], name: str, names: list[str]) -> Iterator[str]:
    """Where a function is called: functions by number, from the program down."""
    for stack in _list(entry.get("callstacks", entry.get("callstack")), "callstacks"):
        above = [] if stack is None else [names[int(str(at))] for at in _list(stack, "callstacks")]
        yield ARROW.join([*above, name])


def _sets(entry: Mapping[str, object]) -> Iterator[Set]:
    """The parameters that act together in a loop nest; processed profiles have them in "deps"."""
    if "instance" not in entry:
        yield from (frozenset(map(str, _list(one, "deps"))) for one in _list(entry["deps"], "deps"))
        return
    yield from _nested(entry["instance"], frozenset())


def _nested(loops: object, above: Set) -> Iterator[Set]:
    """Loops by number: of each one its own parameters with those of the loops around it.

    A loop that was run in several ways is a list; what a loop calls stands with the callee. The
    exits of a loop have a set of parameters each; branches in it may multiply with any.
    """
    for of in _mapping(loops, "loops").values():
        for loop in of if isinstance(of, list) else [of]:
            one = _mapping(loop, "a loop")
            if "level" not in one:
                if "function_idx" not in one:
                    yield from _nested(one, above)
                continue
            branches = _mapping(one.get("branches") or {}, "branches").values()
            decide = {str(name) for names in branches for name in _list(names, "branches")}
            exits = [
                above | decide | set(map(str, _list(names, "params")))
                for names in _list(one.get("params") or [], "params")
            ] or [above | decide]
            yield from exits
            for within in exits:
                yield from _nested(one.get("loops") or {}, within)


def _labels(function: Mapping[str, object]) -> Iterator[Nest]:
    """Loops are names, or lists of names where loops are nested; MPI adds its own parameters."""
    for kind in ("loops", "MPI"):
        for one in _list(function.get(kind) or [], kind):
            yield Nest.of([one] if isinstance(one, str) else map(str, _list(one, kind)))


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} is an object")
    return value


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{what} is a list")
    return value
