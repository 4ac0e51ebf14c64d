"""The iterations of a run's main loop, as its agents told them."""

import json

from insitu.entities import RunRecord


def iteration_times(run: RunRecord) -> list[float]:
    """A sample of the times (s) of the main loop's iterations in one rank, in order.

    Empty where no loop was found. The agent of each node tells what measuring cost, and with it
    this; the nodes' objects stand one behind the other in the run's configuration, see
    `collectors/iterations.py`.
    """
    text = run.configuration.get("cost")
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            cost, at = decoder.raw_decode(text, at)
        except ValueError:
            return []
        told = cost.get("iterations") if isinstance(cost, dict) else None
        times = told.get("times_s") if isinstance(told, dict) else None
        if isinstance(times, list) and all(isinstance(value, int | float) for value in times):
            return [float(value) for value in times]
        at = text.find("{", at)
    return []
