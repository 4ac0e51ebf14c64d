"""Diagnosing a campaign: what will limit the program on more ranks."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from insitu.analysis.diagnosis.diagnose import Diagnosis, diagnose_experiment
from insitu.analysis.diagnosis.machine import DEFAULT_MACHINE, Machine, parse_machine
from insitu.analysis.diagnosis.measurements import Site
from insitu.analysis.predict import Point
from insitu.campaign.config import load_config
from insitu.campaign.load import load_experiment
from insitu.campaign.selection import application, select_runs
from insitu.campaign.store import SqliteStore, open_store
from insitu.entities import RANKS, CallPath, parse_assignment
from insitu.errors import CampaignError, UsageError


def diagnose(campaign: str, *, at: Point | None = None, machine: str = "") -> Diagnosis:
    """Diagnose the complete runs of a campaign.

    Args:
        campaign: directory of the campaign.
        at: the target, such as "p=65536"; default: `target` of campaign.toml, else 64 times the
            largest number of ranks, at most 65,536.
        machine: what to assume of the target, see `parse_machine`.

    Raises:
        CampaignError: there is no campaign, it cannot be read, or it has no complete run.
        UsageError: an argument makes no sense.
    """
    with open_store(campaign) as store:
        return diagnose_store(store, at=at, machine=parse_machine(machine))


def diagnose_store(
    store: SqliteStore, *, at: Point | None = None, machine: Machine = DEFAULT_MACHINE
) -> Diagnosis:
    """Diagnose the complete runs of an open campaign; see `diagnose`."""
    records = store.runs()
    selected, _ = select_runs(records)
    if not selected:
        ended = f"; {len(records)} ended early: `insitu runs {store.path}` says how"
        raise CampaignError(
            f"{store.path}: no complete run yet{ended if records else ''}; measure one with"
            f" `insitu run --campaign {store.path} -- COMMAND`"
        )

    config = load_config(store.path)
    programs = [application(record.configuration) for record in selected]
    experiment = load_experiment(store)
    return diagnose_experiment(
        experiment,
        records,
        store.models(),
        program=next(filter(None, programs), "") or config.name,
        target=config.target if at is None else _parse_target(at, experiment.parameters),
        machine=machine,
        sites=load_sites(store),
    )


def load_sites(store: SqliteStore) -> Mapping[CallPath, Site]:
    """Where the functions of a campaign are defined, with lines of compiled ones."""
    started_at = min((record.started_at for record in store.runs()), default=0.0)
    return _with_lines(store.sites(), started_at)


def _with_lines(sites: Mapping[CallPath, Site], started_at: float) -> Mapping[CallPath, Site]:
    """Sites with the lines of compiled functions, from debug information that is still here.

    Args:
        sites: file and line by call path; for compiled functions the line is 0.
        started_at: seconds since 1970; a file that is newer is not the one that ran.
    """
    compiled: dict[str, set[str]] = {}
    for path, (file, line) in sites.items():
        if line == 0:
            compiled.setdefault(file, set()).add(path.name)

    lines = {}
    for file, names in compiled.items():
        for name, site in _lines_of(file, frozenset(names), started_at).items():
            lines[file, name] = site
    return {path: lines.get((site[0], path.name), site) for path, site in sites.items()}


@lru_cache(maxsize=256)  # views diagnose after each run; debug information is large
def _lines_of(file: str, names: frozenset[str], started_at: float) -> Mapping[str, Site]:
    from insitu.collectors.symbols import find_lines

    return find_lines(file, names, before_ns=int(started_at * 1e9))


def _parse_target(at: Point, parameters: Sequence[str]) -> dict[str, float]:
    """The parameter values of a target; parameters may be left out."""
    if not isinstance(at, str):
        values = {name: float(value) for name, value in at.items()}
    else:
        try:
            values = dict(parse_assignment(text) for text in at.split(","))
        except ValueError as error:
            raise UsageError(f"--at {at}: {error}") from error

    available = tuple(dict.fromkeys((RANKS, *parameters)))
    for name in values:
        if name not in available:
            raise UsageError(f"--at {at}: no parameter '{name}'; available: {', '.join(available)}")

    if min(values.values()) <= 0:
        raise UsageError(f"--at {at}: values must be above 0")

    return values
