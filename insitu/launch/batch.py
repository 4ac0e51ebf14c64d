"""Jobs of a batch system: scripts that people can read and change, handed to Slurm."""

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
ANSWER_S = 60.0
ROUND = "${SLURM_ARRAY_TASK_ID:+--once}"  # a task of an array makes each configuration once
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class BatchJob:
    """One job per number of ranks: it makes the campaign's runs of that size, one after another.

    inside: the launcher that starts its runs. minutes: the time that one round asks for, 0 leaves
    it to the batch system. rounds: repetitions that are left; an array has a task for each, and
    only for them, since all tasks of an array are of one size. setup: lines before the runs.
    is_followed: at its end it hands over the job that its runs ask for.
    """

    campaign: str  # absolute
    ranks: int
    python: str
    inside: str = "srun"
    minutes: int = 0
    rounds: int = 1
    setup: Sequence[str] = ()
    is_followed: bool = False

    @property
    def path(self) -> str:
        """Where its script lies."""
        return os.path.join(self.campaign, JOBS, f"p{self.ranks}.sh")

    def text(self, asked: Sequence[str] = (), more: str = "") -> str:
        """The script.

        Args:
            asked: lines for the batch system.
            more: options of `insitu campaign`, as the shell reads them.
        """
        words = [self.python, "-m", "insitu", "campaign"]
        inside = ["--ranks", str(self.ranks), "--launcher", self.inside, "--wait"]
        make = shlex.join([*words, "resume", self.campaign, *inside])
        return "\n".join(
            [
                "#!/bin/bash",
                *asked,
                "# Change what your machine wants; `insitu campaign` keeps a script that is there.",
                f"cd {shlex.quote(os.path.dirname(self.campaign))}",
                *self.setup,
                f"{make} {more}".rstrip(),
                *([shlex.join([*words, "run", self.campaign])] if self.is_followed else []),
                "",
            ]
        )

    def write(self, text: str) -> str:
        """Write the script where there is none yet; answers its path.

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
            raise LaunchError(f"{self.path}: cannot be written: {error.strerror}") from error
        return self.path


class BatchSystem(Protocol):
    """Takes jobs, and knows which of them have not ended."""

    def preview(self, job: BatchJob) -> str:
        """What would be written and handed over, for people."""

    def submit(self, job: BatchJob) -> str:
        """Write the job's script where there is none, hand it over; answers the job's number.

        Raises:
            LaunchError: the batch system refuses or is not there.
        """

    def queued(self) -> list[str]:
        """The campaign's jobs that wait or run, as `number state`; without the one that asks.

        Raises:
            LaunchError: the batch system cannot be asked.
        """


@dataclass(frozen=True, slots=True)
class Slurm:
    """sbatch and squeue; `options`: further ones of sbatch, as the user gave them."""

    campaign: str
    options: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Of all jobs of the campaign."""
        return NAME.sub("-", os.path.basename(self.campaign))

    def script(self, job: BatchJob) -> str:
        """The job script.

        All jobs of a campaign have one name and run one at a time (--dependency=singleton), since
        a campaign has one writer.
        """
        asked = [
            f"--job-name={self.name}",
            f"--ntasks={job.ranks}",
            f"--output={os.path.join(self.campaign, JOBS, f'p{job.ranks}-%j.log')}",
            "--dependency=singleton",
            *([f"--time={job.minutes}"] if job.minutes else []),
            *self.options,
        ]
        return job.text([f"#SBATCH {option}" for option in asked], ROUND)

    def command(self, job: BatchJob) -> list[str]:
        """How the script is handed over; what depends on how far the campaign is stands here."""
        array = [f"--array=1-{job.rounds}%1"] if job.rounds > 1 else []
        return ["sbatch", "--parsable", *array, job.path]

    def preview(self, job: BatchJob) -> str:
        """The script, and how it would be handed over."""
        kept = _kept(job.path)
        return f"# {shlex.join(self.command(job))}\n{self.script(job) if kept is None else kept}"

    def submit(self, job: BatchJob) -> str:
        """Hand it to sbatch."""
        job.write(self.script(job))
        program, *words = self.command(job)
        path = shutil.which(program)
        if path is None:
            raise LaunchError(
                "no sbatch on PATH: this is no login node of a Slurm cluster; use"
                " --launcher mpiexec, or psij:pbs, psij:lsf, psij:flux"
            )
        answer = ask([path, *words])
        found = _NUMBER.match(answer)
        if found is None:
            raise LaunchError(f"sbatch {job.path}: answered '{answer}'")
        return found.group()

    def queued(self) -> list[str]:
        """What squeue tells of jobs of that name."""
        program = shutil.which("squeue")
        if program is None:
            return []
        asked = ask([program, "--noheader", "--name", self.name, "--format", "%A %i %T"])
        rows = [line.split(" ", 1) for line in asked.splitlines()]
        return [text for number, text in rows if number != os.environ.get("SLURM_JOB_ID")]


def _kept(path: str) -> str | None:
    """The script as the user left it; None where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def ask(command: Sequence[str], text: str = "") -> str:
    """What a command answers on its standard output.

    Raises:
        LaunchError: it does not answer, or fails; with what it said.
    """
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{command[0]}: does not answer: {error}") from error
    if done.returncode:
        raise LaunchError(f"{shlex.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()
