"""One plain process, no MPI."""

from insitu.launch.base import Command, Job


class Local:
    """Runs the program as it is; its only rank is 0 of 1."""

    name = "local"

    def __init__(self, program: str = "") -> None:
        self.program = program

    def command(self, job: Job) -> Command:
        """The program itself, told to measure itself as a single rank."""
        return Command(job.argv, {**job.environment, "INSITU_SINGLE": "1"})
