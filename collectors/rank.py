"""Which rank this process is, from what the launcher put into its environment."""

from collections.abc import Mapping

# Slurm's last: under mpiexec inside an allocation it is 0 in every rank.
SOURCES = (
    ("PMIX_RANK", ("OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "SLURM_NTASKS")),
    ("PMI_RANK", ("PMI_SIZE",)),
    ("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_SIZE",)),
    ("PALS_RANKID", ("PALS_SIZE",)),
    ("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
)
# What ranks of one job on one node have in common and other jobs do not.
JOBS = ("PMIX_NAMESPACE", "PMI_JOBID", "OMPI_MCA_ess_base_jobid")
# Of processes that MPI_Comm_spawn started: the run is that of those who were there before.
SPAWNED = ("PMI_SPAWNED", "OMPI_PARENT_PORT")


class RankInfo:
    """A rank and the number of ranks; MPI itself has the last word once it is initialised."""

    __slots__ = ("rank", "size")

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size


def find(environment: Mapping[str, str]) -> RankInfo | None:
    """The rank of this process, None outside an MPI job and in one that another job spawned."""
    if any(name in environment for name in SPAWNED):
        return None
    for name, sizes in SOURCES:
        rank = environment.get(name, "")
        if not rank.isdigit() or (name == "SLURM_PROCID" and "SLURM_STEP_ID" not in environment):
            continue
        size = next((environment[s] for s in sizes if environment.get(s, "").isdigit()), "")
        if size and int(rank) < int(size):
            return RankInfo(int(rank), int(size))
    return None


def job(environment: Mapping[str, str]) -> str:
    """A name that the ranks of this job share, "" where the launcher gives none."""
    for name in JOBS:
        if environment.get(name):
            return f"{name}={environment[name]}"
    if environment.get("SLURM_JOB_ID") and environment.get("SLURM_STEP_ID"):
        return f"slurm={environment['SLURM_JOB_ID']}.{environment['SLURM_STEP_ID']}"
    return ""
