"""What caused the waiting of a run, as its agents reported it: see `collectors/intervals.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from insitu.campaign.agent_costs import agent_costs
from insitu.entities import CallPath, RunRecord


@dataclass(slots=True)
class WaitingCauses:
    """Waiting in a collective call, and its causes.

    Attributes:
        waited: seconds that all ranks together waited in the calls that were compared.
        costs: seconds of it by call path and rank that cause them; less than `waited` in total
            where the cause of the rest is unknown.
    """

    waited: float = 0.0
    costs: dict[tuple[CallPath, int], float] = field(default_factory=dict)


def waiting_causes(run: RunRecord) -> Mapping[CallPath, WaitingCauses]:
    """The causes of the waiting in each call path, of all nodes together."""
    calls: dict[CallPath, WaitingCauses] = {}
    for cost in agent_costs(run):
        entries = cost.get("delays")
        try:
            for entry in entries or ():
                call = calls.setdefault(CallPath.parse(entry["callpath"]), WaitingCauses())
                call.waited += float(entry["waited"])
                for cause in entry["causes"]:
                    path = CallPath.parse(cause["callpath"])
                    for rank, seconds in cause["ranks"]:
                        key = path, int(rank)
                        call.costs[key] = call.costs.get(key, 0.0) + float(seconds)
        except (KeyError, TypeError, ValueError):
            return {}  # damaged, or of a version to come
    return calls
