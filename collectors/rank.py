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
    """A rank and the number of ranks. MPI's own values replace them once it is initialised."""

    __slots__ = ("rank", "size")

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size


def find_rank(environment: Mapping[str, str]) -> RankInfo | None:
    """The rank of this process; None outside an MPI job and in a spawned process."""
    if any(name in environment for name in SPAWN_VARIABLES):
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


def job_name(environment: Mapping[str, str]) -> str:
    """A name that all ranks of this job share; "" if the launcher provides none."""
    for name in JOB_VARIABLES:
        if environment.get(name):
            return f"{name}={environment[name]}"
    if environment.get("SLURM_JOB_ID") and environment.get("SLURM_STEP_ID"):
        return f"slurm={environment['SLURM_JOB_ID']}.{environment['SLURM_STEP_ID']}"
    return ""
