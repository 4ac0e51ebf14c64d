"""The iteration times of a run's main loop, as its agents reported them."""

from insitu.campaign.agent_costs import agent_costs
from insitu.entities import RunRecord


def iteration_times(run: RunRecord) -> list[float]:
    """A sample of the times in seconds of the main loop's iterations in one rank, in order.

    Empty if no main loop was detected. See `collectors/iterations.py`.
    """
    for cost in agent_costs(run):
        iterations = cost.get("iterations")
        times = iterations.get("times_s") if isinstance(iterations, dict) else None
        if isinstance(times, list) and all(isinstance(value, int | float) for value in times):
            return [float(value) for value in times]

    return []
