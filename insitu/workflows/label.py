"""Adding parameters to runs that were measured without them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from insitu.campaign.store import open_store
from insitu.entities import RANKS, Finding, RunKey, RunRecord
from insitu.errors import UsageError
from insitu.modeling.base import ModelSet
from insitu.workflows.omit import find_run
from insitu.workflows.refit import find_all, refit_store


@dataclass(frozen=True, slots=True)
class Labelling:
    """The labelled runs as they are named now, and the models fitted afterwards.

    corrected: those of the runs that had another value of a parameter, as they were named before.
    """

    runs: tuple[RunKey, ...]
    models: ModelSet
    findings: tuple[Finding, ...]  # those that the campaign did not have before
    corrected: tuple[RunKey, ...] = ()


def label_runs(
    campaign: str,
    names: Sequence[str],
    parameters: Mapping[str, float],
    removed: Collection[str] = (),
) -> Labelling:
    """Add parameters to runs of a campaign, correct or remove them, and refit the models.

    Args:
        campaign: directory of the campaign.
        names: runs as `p=4#0`; without `#0` or some parameters if this identifies one run.
        parameters: what the runs had, such as `n` = 128.
        removed: names of parameters that the runs did not have.

    Raises:
        CampaignError: the campaign cannot be read, or an aggregator is writing to it.
        UsageError: a name identifies no run or several, the number of ranks would change, or no
            run has a parameter that is to be removed.
    """
    from insitu.server.discovery import WriterLock

    if RANKS in parameters or RANKS in removed:
        raise UsageError(f"'{RANKS}' is the number of ranks that a run had; it cannot be changed")
    for name in sorted(set(removed) & set(parameters)):
        raise UsageError(f"'{name}' is both given and removed")

    with open_store(campaign) as store, WriterLock(campaign):
        runs = [find_run(store.runs(), name, campaign) for name in names]
        _check_removed(runs, removed)
        known = set(find_all(store, store.models()))
        for run in runs:
            before = dict(run.key.parameters)
            kept = {name: value for name, value in before.items() if name not in removed}
            if before != kept | dict(parameters):  # a run that has them keeps its repetition
                store.set_parameters(run.id, kept | dict(parameters))

        models = refit_store(store)
        labelled = {run.id for run in runs}
        keys = tuple(run.key for run in store.runs() if run.id in labelled)
        findings = tuple(finding for finding in find_all(store, models) if finding not in known)
    corrected = tuple(run.key for run in runs if _has_other_value(run.key, parameters))
    return Labelling(keys, models, findings, corrected)


def _check_removed(runs: Sequence[RunRecord], removed: Collection[str]) -> None:
    present = {name for run in runs for name, _ in run.key.parameters}
    for name in removed:
        if name not in present:
            others = ", ".join(sorted(present - {RANKS})) or "none"
            raise UsageError(f"no '{name}' to remove; the parameters of these runs: {others}")


def _has_other_value(key: RunKey, parameters: Mapping[str, float]) -> bool:
    return any(parameters.get(name, value) != value for name, value in key.parameters)
