"""The nodes of a run: their names, ranks and facts, as a campaign stores them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from insitu.entities import RunRecord

NODES = "nodes"  # the value of a run's configuration


@dataclass(frozen=True, slots=True)
class RunNode:
    """A node of a run.

    Attributes:
        name: of the machine.
        ranks: those that ran on it, ascending.
        facts: `processor`, `processors`, `numa_nodes`, `mhz`, `memory` (bytes) and `load`, as far
            as they are known.
    """

    name: str
    ranks: tuple[int, ...]
    facts: Mapping[str, object]


def nodes_of(run: RunRecord) -> list[RunNode]:
    """The nodes of a run; empty if it was measured before they were recorded."""
    try:
        entries = json.loads(run.configuration.get(NODES) or "[]")
    except (ValueError, RecursionError):
        return []
    if not isinstance(entries, list):
        return []

    nodes = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("ranks"), list):
            continue
        facts = {name: value for name, value in entry.items() if name not in ("name", "ranks")}
        ranks = tuple(rank for rank in entry["ranks"] if isinstance(rank, int))
        nodes.append(RunNode(str(entry.get("name", "")), ranks, facts))
    return nodes
