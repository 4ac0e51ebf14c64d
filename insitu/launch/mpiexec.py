"""mpiexec of Open MPI and of MPICH and its relatives (Intel MPI, MVAPICH)."""

from insitu.launch.base import Command, Job


class MPICH:
    """Hydra's mpiexec: forwards the whole environment, oversubscribes without being asked."""

    name = "mpich"

    def __init__(self, program: str) -> None:
        self.program = program

    def command(self, job: Job) -> Command:
        """`mpiexec -n N program …`."""
        return Command((self.program, "-n", str(job.ranks), *job.argv), job.environment)


class OpenMPI:
    """Open MPI's mpiexec: wants to be told what to forward to other nodes, and when to
    oversubscribe."""

    name = "openmpi"

    def __init__(self, program: str) -> None:
        self.program = program

    def command(self, job: Job) -> Command:
        """`mpiexec -n N [--oversubscribe] -x NAME … program …`."""
        environment = dict(job.environment)
        argv = [self.program, "-n", str(job.ranks)]
        if job.ranks > job.cores:
            argv.append("--oversubscribe")
        for name in environment:
            argv += ["-x", name]
        if job.is_root:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return Command((*argv, *job.argv), environment)
