"""Leaving runs out of the models of a campaign."""

from collections.abc import Sequence
from dataclasses import dataclass

from insitu.campaign.selection import OMITTED_CODE, omission_finding
from insitu.campaign.store import open_store
from insitu.entities import Finding, RunRecord, RunState, parse_assignment
from insitu.errors import UsageError
from insitu.modeling.base import ModelSet
from insitu.workflows.refit import find_all, refit_store

LISTED_RUNS = 10  # in an error


@dataclass(frozen=True, slots=True)
class Omission:
    """The runs that were omitted or restored, and the models fitted afterwards."""

    runs: tuple[RunRecord, ...]
    models: ModelSet
    findings: tuple[Finding, ...]  # those that the campaign did not have before


def omit_runs(campaign: str, names: Sequence[str], *, is_restoring: bool = False) -> Omission:
    """Leave runs out of the models of a campaign, or use them again, and refit the models.

    The measurements of an omitted run stay in the campaign.

    Args:
        campaign: directory of the campaign.
        names: runs as `p=8#1`; without `#1` or some parameters if this identifies one run.
        is_restoring: use runs again that were omitted before.

    Raises:
        CampaignError: the campaign cannot be read, or an aggregator is writing to it.
        UsageError: a name identifies no run or several, or a run that is in no model anyway.
    """
    from insitu.server.discovery import WriterLock

    with open_store(campaign) as store, WriterLock(campaign):
        runs = tuple(find_run(store.runs(), name, campaign) for name in names)
        known = set(find_all(store, store.models()))
        for run in runs:
            findings = () if is_restoring else (omission_finding(run),)
            store.add_findings(run.id, findings, without=OMITTED_CODE)

        models = refit_store(store)
        new = tuple(finding for finding in find_all(store, models) if finding not in known)
    return Omission(runs, models, new)


def find_run(runs: Sequence[RunRecord], name: str, campaign: str) -> RunRecord:
    """Return the only run that a name identifies.

    Raises:
        UsageError: no run or several, or a run that is in no model anyway.
    """
    matches = [run for run in runs if name in (run.id, str(run.key))] or _matching(runs, name)
    if len(matches) != 1:
        listed = _list_runs(matches or runs)
        if matches:
            raise UsageError(f"{campaign}: '{name}' is {len(matches)} runs; name one of {listed}")
        raise UsageError(f"{campaign}: no run '{name}'; the runs are {listed}")

    (run,) = matches
    if run.state is not RunState.COMPLETE:
        raise UsageError(
            f"{campaign}: run {run.key} is not complete and therefore in no model anyway"
        )

    return run


def _list_runs(runs: Sequence[RunRecord]) -> str:
    """Return the first runs by name, with their ids if two have the same name."""
    names = [str(run.key) for run in runs]
    if len(set(names)) < len(names):
        names = [f"{run.key} ({run.id})" for run in runs]
    more = ", …" if len(names) > LISTED_RUNS else ""
    return (", ".join(names[:LISTED_RUNS]) or "none") + more


def _matching(runs: Sequence[RunRecord], name: str) -> list[RunRecord]:
    """Return the runs with these parameters and, if it is given, this repetition."""
    parameters, _, repetition = name.partition("#")
    try:
        wanted = dict(map(parse_assignment, parameters.split(",")))
    except ValueError as error:
        raise UsageError(f"{error}; a run is written as p=8#1") from error

    matches = []
    for run in runs:
        has_parameters = wanted.items() <= dict(run.key.parameters).items()
        if has_parameters and repetition in ("", str(run.key.repetition)):
            matches.append(run)
    return matches
