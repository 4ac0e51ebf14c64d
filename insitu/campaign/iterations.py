"""The iteration times of a run's main loop, as its agents reported them."""

import json

from insitu.entities import RunRecord


def iteration_times(run: RunRecord) -> list[float]:
    """A sample of the times in seconds of the main loop's iterations in one rank, in order.

    Empty if no main loop was detected. The agent of each node reports a JSON object with the cost
    of measuring, which contains the sample; the configuration of the run holds these objects one
    after the other, each behind the name of its node. See `collectors/iterations.py`.
    """
    text = run.configuration.get("cost")
    decoder = json.JSONDecoder()

    start = text.find("{")
    while start >= 0:
        try:
            cost, end = decoder.raw_decode(text, start)
        except ValueError:
            return []
        iterations = cost.get("iterations") if isinstance(cost, dict) else None
        times = iterations.get("times_s") if isinstance(iterations, dict) else None
        if isinstance(times, list) and all(isinstance(value, int | float) for value in times):
            return [float(value) for value in times]
        start = text.find("{", end)

    return []
