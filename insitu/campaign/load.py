"""Sealed runs as one experiment, with their values."""

from collections.abc import Callable

from insitu.campaign.base import Store
from insitu.campaign.selection import is_oversubscribed, select_runs, varying_parameters
from insitu.modeling.measurement import Experiment, RunTable


def load_experiment(store: Store, table: Callable[[str], RunTable] | None = None) -> Experiment:
    """Read all runs that may be joined, every rank's value kept.

    Args:
        store: of the campaign.
        table: the values of a run by its id, where they need not be read from the store.

    Raises:
        CampaignError: a run cannot be read.
    """
    runs, _ = select_runs(store.runs())
    return Experiment(
        parameters=varying_parameters(runs),
        runs=tuple((run.key, (table or store.table)(run.id)) for run in runs),
        crowded=frozenset(run.key for run in runs if is_oversubscribed(run)),
    )
