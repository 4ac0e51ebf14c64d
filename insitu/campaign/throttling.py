"""Functions that runs of a campaign no longer timed because that cost too much."""

from collections.abc import Iterable

from insitu.campaign.agent_costs import agent_costs
from insitu.entities import RunRecord

THROTTLED = "throttled"  # the entry of what an agent reports
MAX_FUNCTIONS = 100
MAX_NAME_LENGTH = 200  # characters; a later run cannot leave out a function with a longer name


def throttled_functions(runs: Iterable[RunRecord]) -> list[str]:
    """The names of the functions that at least one of the runs has throttled, in order."""
    names: set[str] = set()
    for run in runs:
        for cost in agent_costs(run):
            entry = cost.get(THROTTLED)
            if isinstance(entry, list):
                names.update(name for name in entry if isinstance(name, str))
    return sorted(name for name in names if len(name) <= MAX_NAME_LENGTH)[:MAX_FUNCTIONS]
