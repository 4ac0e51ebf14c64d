"""A single process without MPI."""

from insitu.launch.base import Command, Job


class Local:
    """Starts the program itself; its only rank is 0 of 1."""

    name = "local"

    def __init__(self, program: str = "") -> None:
        self.program = program

    def command(self, job: Job) -> Command:
        """Return the program itself, with the variable for a single rank."""
        return Command(job.argv, {**job.environment, "INSITU_SINGLE": "1"})
