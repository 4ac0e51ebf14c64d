"""Jobs of a batch system: scripts that users can read and change, and their submission to Slurm."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from insitu.errors import LaunchError

JOBS = "jobs"  # folder of a campaign
NAME = re.compile(r"[^A-Za-z0-9_.-]+")
DIGEST_LENGTH = 6  # of a directory in the name of a job; squeue shows the beginning of names
TOOL_TIMEOUT_S = 60.0  # for sbatch, squeue and others
# A task of a job array runs each configuration once.
ONCE_IN_ARRAY = "${SLURM_ARRAY_TASK_ID:+--once}"
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A job that makes the campaign's runs with one number of ranks, one after another.

    Attributes:
        campaign: absolute path of the campaign.
        ranks: the number of ranks.
        python: the Python that runs insitu.
        inside: the launcher that starts the runs.
        minutes: time limit of one round; 0 for the default of the batch system.
        rounds: repetitions that are left; a job array has a task for each. All tasks of an array
            have the same size, so configurations of other sizes need jobs of their own.
        setup: lines of the script before the runs.
        is_followed: at its end, the job submits the job that its results ask for.
    """

    campaign: str
    ranks: int
    python: str
    inside: str = "srun"
    minutes: int = 0
    rounds: int = 1
    setup: Sequence[str] = ()
    is_followed: bool = False

    @property
    def path(self) -> str:
        """Path of the script."""
        return os.path.join(self.campaign, JOBS, f"p{self.ranks}.sh")

    def text(self, directives: Sequence[str] = (), more: str = "") -> str:
        """Return the script.

        Args:
            directives: lines for the batch system.
            more: further options of `insitu campaign`, in shell syntax.
        """
        words = [self.python, "-m", "insitu", "campaign"]
        inside = ["--ranks", str(self.ranks), "--launcher", self.inside, "--wait"]
        make = shlex.join([*words, "resume", self.campaign, *inside])
        return "\n".join(
            [
                "#!/bin/bash",
                *directives,
                "# You may change this script; `insitu campaign` does not overwrite it.",
                f"cd {shlex.quote(os.path.dirname(self.campaign))}",
                *self.setup,
                f"{make} {more}".rstrip(),
                *([shlex.join([*words, "run", self.campaign])] if self.is_followed else []),
                "",
            ]
        )

    def write(self, text: str) -> str:
        """Write the script unless it exists, and return its path.

        Raises:
            LaunchError: it cannot be written.
        """
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            if not os.path.exists(self.path):
                with open(self.path, "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(self.path, 0o700)
        except OSError as error:
            raise LaunchError(f"{self.path}: cannot write: {error.strerror}") from error
        return self.path


def quote_path(path: str) -> str:
    """A path as an option of #SBATCH: Slurm divides the line at blanks outside of quotes."""
    if not re.search(r"[\s\"'#;\\]", path):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class BatchSystem(Protocol):
    """Accepts jobs and lists those that have not ended."""

    def preview(self, job: BatchJob) -> str:
        """Return the script and how it would be submitted, for people."""

    def submit(self, job: BatchJob) -> str:
        """Write the script unless it exists, submit it, and return the id of the job.

        Raises:
            LaunchError: the batch system refuses the job or is not installed.
        """

    def queued_jobs(self) -> list[str]:
        """Return the campaign's jobs that have not ended, as `id state`, without the current one.

        Raises:
            LaunchError: the batch system does not answer.
        """


@dataclass(frozen=True, slots=True)
class Slurm:
    """Slurm's sbatch and squeue; `options` are the user's options for sbatch."""

    campaign: str
    options: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The name of all jobs of the campaign, and of no campaign in another directory."""
        path = os.path.realpath(self.campaign)
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:DIGEST_LENGTH]
        return f"{NAME.sub('-', os.path.basename(path))}-{digest}"

    def script(self, job: BatchJob) -> str:
        """Return the job script.

        All jobs of a campaign have the same name and run one at a time (--dependency=singleton),
        because a campaign has only one writer.
        """
        options = [
            f"--job-name={self.name}",
            f"--ntasks={job.ranks}",
            f"--output={quote_path(os.path.join(self.campaign, JOBS, f'p{job.ranks}-%j.log'))}",
            "--dependency=singleton",
            *([f"--time={job.minutes}"] if job.minutes else []),
            *self.options,
        ]
        return job.text([f"#SBATCH {option}" for option in options], ONCE_IN_ARRAY)

    def command(self, job: BatchJob) -> list[str]:
        """Return the command that submits the script; its options depend on the runs left."""
        array = [f"--array=1-{job.rounds}%1"] if job.rounds > 1 else []
        return ["sbatch", "--parsable", *array, job.path]

    def preview(self, job: BatchJob) -> str:
        """Return the script, the user's if it exists, and the command that would submit it."""
        script = _existing_script(job.path)
        if script is None:
            script = self.script(job)
        return f"# {shlex.join(self.command(job))}\n{script}"

    def submit(self, job: BatchJob) -> str:
        """Submit a job with sbatch."""
        job.write(self.script(job))
        program, *words = self.command(job)
        path = shutil.which(program)
        if path is None:
            raise LaunchError(
                "no sbatch on PATH: this is not a login node of a Slurm cluster; use"
                " --launcher mpiexec, or psij:pbs, psij:lsf, psij:flux"
            )
        output = run_tool([path, *words])
        number = _NUMBER.match(output)
        if number is None:
            raise LaunchError(f"sbatch {job.path}: expected the id of the job, got '{output}'")
        return number.group()

    def queued_jobs(self) -> list[str]:
        """Return the jobs of this user that squeue lists for the name of the campaign."""
        program = shutil.which("squeue")
        if program is None:
            return []
        # %A: id of the job, %i: with the number of its array task, %T: state, %r: why it waits
        own = ["--user", str(os.getuid()), "--name", self.name]
        output = run_tool([program, "--noheader", *own, "--format", "%A %i %T %r"])
        jobs = []
        for line in output.splitlines():
            number, task, state, *reason = line.split(" ", 3)
            if number != os.environ.get("SLURM_JOB_ID"):
                is_waiting = reason not in ([], ["None"])
                jobs.append(f"{task} {state} ({reason[0]})" if is_waiting else f"{task} {state}")
        return jobs


def _existing_script(path: str) -> str | None:
    """Return the script as the user left it; None if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def run_tool(command: Sequence[str], text: str = "") -> str:
    """Run a command with `text` as its standard input, and return its standard output.

    Raises:
        LaunchError: the command cannot be started, times out or fails; with its output.
    """
    try:
        completed = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TOOL_TIMEOUT_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{command[0]}: {error}") from error

    if completed.returncode:
        message = completed.stderr.strip() or completed.stdout.strip()
        raise LaunchError(f"{shlex.join(command)}: {message}")

    return completed.stdout.strip()
