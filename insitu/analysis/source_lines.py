"""Lines of compiled functions and inlined ones, from debug information that is still there."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.diagnosis.measurements import Site
from insitu.analysis.diagnosis.statements import Statement
from insitu.entities import CallPath


def with_lines(sites: Mapping[CallPath, Site], measured_at: float) -> Mapping[CallPath, Site]:
    """Return sites with the lines of compiled functions.

    Args:
        sites: file and line by call path; for compiled functions the line is 0.
        measured_at: when the newest run began, in seconds since 1970; a file that is newer is not
            the one that ran.
    """
    compiled: dict[str, set[str]] = {}
    for path, (file, line) in sites.items():
        if line == 0:
            compiled.setdefault(file, set()).add(path.name)

    lines = {}
    for file, names in compiled.items():
        for name, site in _lines_of(file, frozenset(names), measured_at).items():
            lines[file, name] = site
    return {path: lines.get((site[0], path.name), site) for path, site in sites.items()}


@lru_cache(maxsize=256)  # views diagnose after each run; debug information is large
def _lines_of(file: str, names: frozenset[str], measured_at: float) -> Mapping[str, Site]:
    from insitu.collectors.symbols import find_lines

    return find_lines(file, names, before_ns=int(measured_at * 1e9))


def name_inlined(
    diagnosis: Diagnosis, sites: Mapping[CallPath, Site], measured_at: float
) -> Diagnosis:
    """Return a diagnosis whose statements name the functions that the compiler inlined.

    Code of an inlined function is measured as that of its caller, often `main`.

    Args:
        diagnosis: statements with the calls that were counted.
        sites: file and line by call path, as they were measured.
        measured_at: as for `with_lines`.
    """
    named = (_name_inlined(entry, sites, measured_at) for entry in diagnosis.statements)
    return replace(diagnosis, statements=tuple(named))


def _name_inlined(
    statement: Statement, sites: Mapping[CallPath, Site], measured_at: float
) -> Statement:
    if not statement.callpath or not statement.calls:
        return statement
    function = CallPath.parse(statement.callpath)
    file, line = sites.get(function, ("", 0))
    if not file or line:
        return statement
    inlined = _inlined_into(file, function.name, statement.calls, measured_at)
    if inlined is None:
        return statement
    name, source, line = inlined
    return replace(
        statement,
        inlined=name,
        where=f"{os.path.basename(source)}:{line}",
        text=f"{statement.text}, inlined in {short_name(function.name)}",
    )


@lru_cache(maxsize=256)
def _inlined_into(
    file: str, name: str, calls: tuple[str, ...], measured_at: float
) -> tuple[str, str, int] | None:
    from insitu.collectors.symbols import find_inlined

    return find_inlined(file, name, calls, before_ns=int(measured_at * 1e9))
