"""What runs on one node, or on more than one, say about a target that needs many nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

from insitu.campaign.node_facts import RunNode, nodes_of
from insitu.campaign.selection import is_omitted
from insitu.entities import RANKS, RunRecord, RunState

LEAST_SCALES = 3  # that a law needs, also of the messages between nodes


@dataclass(frozen=True, slots=True)
class NodeBoundary:
    """Which runs of a campaign used more than one node.

    Attributes:
        capacity: the most ranks that one node can have: its processors, or the ranks it had.
        crossed: the numbers of ranks of the runs on more than one node, ascending.
    """

    capacity: int
    crossed: tuple[int, ...]

    def is_open(self, target: float) -> bool:
        """Whether `target` ranks need several nodes, and the runs have no law across nodes."""
        return target > self.capacity and len(self.crossed) < LEAST_SCALES

    def reason(self, target: float) -> str:
        """Why nothing is known of messages between nodes at `target` ranks."""
        if self.crossed:
            listed = " and ".join(f"{RANKS} = {p:,}" for p in self.crossed)
            return f"only {listed} used more than one node, and a law needs {LEAST_SCALES} scales"
        return f"all runs were on one node, and {RANKS} = {target:,.0f} needs more"


def node_boundary(records: Sequence[RunRecord]) -> NodeBoundary | None:
    """The nodes of the complete runs of a campaign; None if those of any run are unknown."""
    runs = [
        (record.key.size, nodes_of(record))
        for record in records
        if record.state is RunState.COMPLETE and not is_omitted(record)
    ]
    if not runs or not all(nodes for _, nodes in runs):
        return None
    return NodeBoundary(
        capacity=max(_capacity(node) for _, nodes in runs for node in nodes),
        crossed=tuple(sorted({p for p, nodes in runs if len(nodes) > 1})),
    )


def _capacity(node: RunNode) -> int:
    processors = node.facts.get("processors")
    return max(len(node.ranks), processors if isinstance(processors, int) else 0)
