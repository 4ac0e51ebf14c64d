"""Which rank this process is, according to the environment variables of its launcher."""

from collections.abc import Mapping

# The variable of the rank, and those of the number of ranks. Slurm comes last: under mpiexec inside
# an allocation, SLURM_PROCID is 0 in every rank.
RANK_VARIABLES = (
    ("PMIX_RANK", ("OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "SLURM_NTASKS")),
    ("PMI_RANK", ("PMI_SIZE",)),
    ("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_SIZE",)),
    ("PALS_RANKID", ("PALS_SIZE",)),
    ("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
)
# Equal in all ranks of a job on a node, different in other jobs.
JOB_VARIABLES = ("PMIX_NAMESPACE", "PMI_JOBID", "OMPI_MCA_ess_base_jobid")
# Set in processes that MPI_Comm_spawn started. They are not ranks of the measured run.
SPAWN_VARIABLES = ("PMI_SPAWNED", "OMPI_PARENT_PORT")


class RankInfo:
    """A rank and the number of ranks. MPI's own values replace them once it is initialised.

    Attributes:
        root: id and start time of the first process of this rank; (0, 0) if unknown.
    """

    __slots__ = ("rank", "root", "size")

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.root = (0, 0)


def is_spawned(environment: Mapping[str, str]) -> bool:
    """Whether `MPI_Comm_spawn` started this process."""
    return any(name in environment for name in SPAWN_VARIABLES)


def find_rank(environment: Mapping[str, str]) -> RankInfo | None:
    """The rank of this process; None outside an MPI job and in a spawned process."""
    if is_spawned(environment):
        return None

    for name, size_names in RANK_VARIABLES:
        rank = environment.get(name, "")
        if not rank.isdigit():
            continue
        if name == "SLURM_PROCID" and "SLURM_STEP_ID" not in environment:
            continue  # a batch script, which no srun started

        sizes = [environment.get(size_name, "") for size_name in size_names]
        size = next((text for text in sizes if text.isdigit()), "")
        if size and int(rank) < int(size):
            return RankInfo(int(rank), int(size))
    return None


def find_root(pid: int, environment: Mapping[str, str]) -> tuple[int, int]:
    """Id and start time of the first process of the rank that process `pid` belongs to.

    It is a shell or another wrapper if the launcher started one. All processes of a rank have the
    same run and the same variable of the rank; the launcher has only the run. Under Slurm it is
    always `pid`, because Slurm kills the agent that waits for it.
    """
    marks = set()
    for name in ("INSITU_RUN", _rank_variable(environment)):
        marks.add(f"{name}={environment.get(name, '')}".encode())
    root = pid
    try:
        started, parent = _read_stat(pid)
        while parent > 1 and "SLURM_STEP_ID" not in environment:
            with open(f"/proc/{parent}/environ", "rb") as file:
                if not marks <= set(file.read().split(b"\0")):
                    break
            root = parent
            started, parent = _read_stat(root)
    except OSError:  # the process is another user's, or has just ended
        return (root, started) if root != pid else (0, 0)
    return root, started


def find_launcher(pid: int, environment: Mapping[str, str]) -> int:
    """Id of the process that started the rank that process `pid` belongs to; 0 if unknown."""
    root, _ = find_root(pid, environment)
    try:
        return _read_stat(root)[1] if root else 0
    except OSError:
        return 0


def _rank_variable(environment: Mapping[str, str]) -> str:
    names = ("INSITU_SINGLE", *(name for name, _ in RANK_VARIABLES))
    return next((name for name in names if name in environment), "")


def _read_stat(pid: int) -> tuple[int, int]:
    """The start time of a process, in clock ticks since boot, and the id of its parent."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[19]), int(fields[1])


def job_name(environment: Mapping[str, str]) -> str:
    """A name that all ranks of this job share; "" if the launcher provides none."""
    for name in JOB_VARIABLES:
        if environment.get(name):
            return f"{name}={environment[name]}"
    if environment.get("SLURM_JOB_ID") and environment.get("SLURM_STEP_ID"):
        return f"slurm={environment['SLURM_JOB_ID']}.{environment['SLURM_STEP_ID']}"
    return ""
