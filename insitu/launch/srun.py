"""srun, for a Slurm allocation without mpiexec."""

from insitu.launch.base import Command, Job


class Srun:
    """Slurm's launcher."""

    name = "srun"

    def __init__(self, program: str) -> None:
        self.program = program

    def command(self, job: Job) -> Command:
        """Return `srun -n N --export=ALL program …`."""
        argv = (self.program, "-n", str(job.ranks), "--export=ALL", *job.argv)
        return Command(argv, job.environment)
