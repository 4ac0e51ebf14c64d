"""Lines of compiled functions and inlined ones, from debug information that is still there."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from insitu.analysis.callpaths import short_name
from insitu.analysis.diagnosis.diagnose import Diagnosis, diagnose_experiment
from insitu.analysis.diagnosis.machine import DEFAULT_MACHINE, Machine
from insitu.analysis.diagnosis.packages import Site
from insitu.analysis.diagnosis.statements import Statement
from insitu.campaign.program_names import sites_of_usual_program, usual_program
from insitu.campaign.selection import run_notes, select_runs
from insitu.entities import CallPath, RunRecord
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment


def with_lines(sites: Mapping[CallPath, Site], measured_at: float) -> Mapping[CallPath, Site]:
    """Return sites with the lines of compiled functions, of lambdas those of the functions around.

    Args:
        sites: file and line by call path; for compiled functions the line is 0.
        measured_at: when the newest run began, in seconds since 1970; a file that is newer is not
            the one that ran.
    """
    compiled: dict[str, set[str]] = {}
    for path, (file, line) in sites.items():
        if line == 0:
            compiled.setdefault(file, set()).update((path.name, _around_lambda(path.name)))

    lines = {}
    for file, names in compiled.items():
        for name, site in _lines_of(file, frozenset(names), measured_at).items():
            lines[file, name] = site
    located = {}
    for path, (file, line) in sites.items():
        around = lines.get((file, _around_lambda(path.name)), (file, line))
        located[path] = lines.get((file, path.name), around)
    return located


def _around_lambda(name: str) -> str:
    """The function in which a lambda of C++ is defined; another function itself."""
    return name.partition("::{lambda")[0]


@lru_cache(maxsize=256)  # views diagnose after each run; debug information is large
def _lines_of(file: str, names: frozenset[str], measured_at: float) -> Mapping[str, Site]:
    from insitu.collectors.symbols import find_lines

    return find_lines(file, names, before_ns=int(measured_at * 1e9))


def diagnose_with_lines(
    experiment: Experiment,
    records: Sequence[RunRecord],
    models: ModelSet,
    *,
    name: str,
    target: Mapping[str, float] | None = None,
    machine: Machine = DEFAULT_MACHINE,
    scaling: str = "",
    sites: Mapping[CallPath, Site],
) -> Diagnosis:
    """Diagnose the runs of a campaign, with lines of compiled functions and inlined ones.

    Args:
        experiment, records, models, target, machine, scaling: see `diagnose_experiment`.
        name: of the program, used where no run has one.
        sites: file and line by call path; for compiled functions the line is 0.
    """
    selected, _ = select_runs(records)
    sites = sites_of_usual_program(sites, selected)
    measured_at = newest_start(records)
    diagnosis = diagnose_experiment(
        experiment,
        records,
        models,
        program=usual_program(selected) or name,
        target=target,
        machine=machine,
        scaling=scaling,
        sites=with_lines(sites, measured_at),
    )
    diagnosis = replace(diagnosis, notes=(*run_notes(records), *diagnosis.notes))
    return name_inlined(diagnosis, sites, measured_at)


def newest_start(records: Iterable[RunRecord]) -> float:
    """When the newest run began, in seconds since 1970; 0 without one."""
    return max((record.started_at for record in records), default=0.0)


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
    if not inlined:
        return statement
    first, *others = ((name, f"{os.path.basename(source)}:{at}") for name, source, at in inlined)
    names = [first[0], *(name for name, _ in others)]
    text = f"{statement.text}, inlined in {short_name(function.name)}"
    for name, where in others:
        text += f", or of {short_name(name)} ({where})"
    return replace(
        statement,
        inlined=" or ".join(map(short_name, names)) if others else names[0],
        where=first[1],
        text=text,
    )


@lru_cache(maxsize=256)
def _inlined_into(
    file: str, name: str, calls: tuple[str, ...], measured_at: float
) -> list[tuple[str, str, int]]:
    from insitu.collectors.symbols import find_inlined

    return find_inlined(file, name, calls, before_ns=int(measured_at * 1e9))
