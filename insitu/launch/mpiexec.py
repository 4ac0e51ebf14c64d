"""mpiexec of Open MPI, and of MPICH and its derivatives (Intel MPI, MVAPICH)."""

from insitu.launch.base import Command, Job


class MPICH:
    """Hydra's mpiexec, which forwards the environment and oversubscribes without an option."""

    name = "mpich"

    def __init__(self, program: str) -> None:
        self.program = program

    def command(self, job: Job) -> Command:
        """Return `mpiexec -n N program …`."""
        return Command((self.program, "-n", str(job.ranks), *job.argv), job.environment)


class OpenMPI:
    """Open MPI's mpiexec, which needs options for the variables to forward and to oversubscribe."""

    name = "openmpi"

    def __init__(self, program: str) -> None:
        self.program = program

    def command(self, job: Job) -> Command:
        """Return `mpiexec -n N [--oversubscribe] -x NAME … program …`."""
        environment = dict(job.environment)
        argv = [self.program, "-n", str(job.ranks)]

        if job.ranks > job.cores:
            argv.append("--oversubscribe")
        for name in environment:
            argv += ["-x", name]

        if job.is_root:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return Command((*argv, *job.argv), environment)
