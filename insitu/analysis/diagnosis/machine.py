"""The machine of the target, and what messages, bytes and memory cost there."""

import math
from dataclasses import dataclass, field

from insitu.errors import UsageError

# Prices of a present-day cluster network, one rank per core. They are assumptions, printed with the
# diagnosis; --machine replaces them.
LATENCY_S = 1.5e-6  # of a message between nodes
BANDWIDTH = 1e9  # bytes per second and rank: 12.5 GB/s a node, divided among its ranks
FILE_CALL_S = 1e-3  # to open or create a file on a parallel file system whose metadata are remote
MEMORY_BYTES = 2 * 2.0**30  # per rank
USABLE_MEMORY = 0.9  # of a node; the system takes the rest
BUDGET_SHARE = 0.05  # of the run time that a limit may take
LEAST_BUDGET_S = 0.1
ONCE_BUDGET_S = 1.0  # of call paths visited once per run, which do not grow with its length

PAIRWISE = ("MPI_Alltoallv", "MPI_Alltoallw", "MPI_Ialltoallv", "MPI_Ialltoallw")
EPOCHS = ("MPI_Win_post", "MPI_Win_start")  # of the ranks of a group
NEIGHBOURHOOD = ("MPI_Neighbor_", "MPI_Ineighbor_")
COLLECTIVES = (
    "Allgather",
    "Allreduce",
    "Alltoall",
    "Barrier",
    "Bcast",
    "Exscan",
    "Gather",
    "Reduce",
    "Scan",
    "Scatter",
)
# Operations that all ranks of a communicator take part in to create communicators and windows. MPI
# agrees on a context among them, which takes the rounds of a reduction.
CREATIONS = (
    "MPI_Cart_create",
    "MPI_Cart_sub",
    "MPI_Comm_create",
    "MPI_Comm_dup",
    "MPI_Comm_idup",
    "MPI_Comm_split",
    "MPI_Dist_graph_create",
    "MPI_Graph_create",
    "MPI_Intercomm_create",
    "MPI_Intercomm_merge",
    "MPI_Win_allocate",
    "MPI_Win_create",
    "MPI_Win_fence",
)
# Operations that all ranks which have opened a file take part in, besides those whose names say so.
OF_FILES = (
    *("MPI_File_open", "MPI_File_close", "MPI_File_set_view", "MPI_File_set_size"),
    *("MPI_File_preallocate", "MPI_File_sync"),
)
ALL_OF_A_FILE = ("_all", "_ordered")
COMPLETIONS = ("MPI_Wait", "MPI_Test", "MPI_Probe", "MPI_Iprobe", "MPI_Mprobe", "MPI_Improbe")


@dataclass(frozen=True, slots=True)
class Machine:
    """What the diagnosis assumes of the target.

    Attributes:
        latency_s: seconds of a message.
        bandwidth: bytes per second of a rank.
        memory_bytes: memory that a rank may use.
        runtime_s: run time of a production run; None: that of the measured runs.
        given: names of the values that the user has set; the others are assumed.
    """

    latency_s: float = LATENCY_S
    bandwidth: float = BANDWIDTH
    memory_bytes: float = MEMORY_BYTES
    runtime_s: float | None = None
    given: frozenset[str] = field(default_factory=frozenset)

    def message_s(self, size: float) -> float:
        """Seconds of a message of so many bytes."""
        return self.latency_s + size / self.bandwidth

    def to_dict(self) -> dict[str, object]:
        """The values as JSON, with the names of those that are assumed."""
        names = ("latency", "bandwidth", "memory", "runtime")
        return {
            "latency_s": self.latency_s,
            "bandwidth_bytes_per_s": self.bandwidth,
            "memory_bytes_per_rank": self.memory_bytes,
            "runtime_s": self.runtime_s,
            "assumed": [name for name in names if name not in self.given],
        }


DEFAULT_MACHINE = Machine()


def parse_machine(text: str, origin: str = "--machine") -> Machine:
    """Parse `latency=1e-6,bandwidth=2e9,memory=4e9,ranks_per_node=64,runtime=3600`.

    With ranks_per_node, bandwidth and memory are those of a node.

    Args:
        origin: where the text stands, for messages.

    Raises:
        UsageError: a name is unknown or a value is not a positive number.
    """
    names = ("latency", "bandwidth", "memory", "ranks_per_node", "runtime")
    values: dict[str, float] = {}
    for assignment in filter(None, (word.strip() for word in text.split(","))):
        name, _, number = (word.strip() for word in assignment.partition("="))
        if name not in names:
            raise UsageError(f"{origin}: no value '{name}'; available: {', '.join(names)}")
        try:
            values[name] = float(number)
        except ValueError:
            raise UsageError(f"{origin}: {assignment}: '{number}' is not a number") from None
        if not (math.isfinite(values[name]) and values[name] > 0):
            raise UsageError(f"{origin}: {assignment}: the value must be above 0")

    ranks = values.get("ranks_per_node", 1.0)
    is_node = "ranks_per_node" in values
    memory = values.get("memory", MEMORY_BYTES)
    if is_node and "memory" in values:
        memory = USABLE_MEMORY * memory / ranks

    bandwidth = values.get("bandwidth", BANDWIDTH)
    if is_node and "bandwidth" in values:
        bandwidth /= ranks

    return Machine(
        latency_s=values.get("latency", LATENCY_S),
        bandwidth=bandwidth,
        memory_bytes=memory,
        runtime_s=values.get("runtime"),
        given=frozenset(values),
    )


def is_collective(operation: str) -> bool:
    """Whether all ranks of a communicator take part in an MPI call.

    Neighbourhood collectives do not count: they send messages between pairs of ranks.
    """
    if operation.startswith(CREATIONS):
        return True
    if operation.startswith("MPI_File_"):
        return operation in OF_FILES or any(word in operation for word in ALL_OF_A_FILE)
    name = operation.removeprefix("MPI_").removeprefix("I").capitalize()
    return not operation.startswith(NEIGHBOURHOOD) and name.startswith(COLLECTIVES)


def is_completion(operation: str) -> bool:
    """Whether an MPI call completes or polls others, so that its visits depend on timing."""
    return operation.startswith(COMPLETIONS)


def collective_steps(operation: str, p: float) -> float:
    """Messages in sequence of the cheapest textbook algorithm of a collective operation.

    Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
    MPICH", IJHPCA 19(1), 2005. Vector variants of all-to-all need a message to each rank.
    """
    if operation in PAIRWISE:
        return max(p - 1.0, 0.0)
    return max(math.log2(max(p, 1.0)), 1.0)
