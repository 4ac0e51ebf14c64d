"""What the agents of a run reported with the cost of measuring: JSON objects, one for each node."""

import json
from collections.abc import Iterator
from typing import Any

from insitu.entities import RunRecord


def agent_costs(run: RunRecord) -> Iterator[dict[str, Any]]:  # Any: JSON
    """The reports of the agents.

    The configuration of the run holds these objects one after the other, each behind the name of
    its node.
    """
    text = run.configuration.get("cost")
    decoder = json.JSONDecoder()

    start = text.find("{")
    while start >= 0:
        try:
            cost, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return
        if isinstance(cost, dict):
            yield cost
        start = text.find("{", end)
