"""Load the complete runs of a campaign, with their values, as one experiment."""

from collections.abc import Callable

from insitu.campaign.base import Store
from insitu.campaign.selection import is_oversubscribed, select_runs, varying_parameters
from insitu.modeling.measurement import Experiment, RunTable


def load_experiment(store: Store, table: Callable[[str], RunTable] | None = None) -> Experiment:
    """Read every rank's values of all runs that form one experiment.

    Args:
        store: the store of the campaign.
        table: returns the values of a run by its id; default: read them from the store.

    Raises:
        CampaignError: a run cannot be read.
    """
    load_run = table or store.table
    runs, _ = select_runs(store.runs())

    return Experiment(
        parameters=varying_parameters(runs),
        runs=tuple((run.key, load_run(run.id)) for run in runs),
        crowded=frozenset(run.key for run in runs if is_oversubscribed(run)),
    )
