"""Jobs of a batch system: scripts that people can read and change, handed to Slurm."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from insitu.errors import LaunchError

JOBS = "jobs"  # folder of a campaign
NAME = re.compile(r"[^A-Za-z0-9_.-]+")
ANSWER_S = 60.0
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class BatchJob:
    """One job per number of ranks: it makes the campaign's runs of that size, one after another.

    minutes: the time that it asks for; 0 leaves it to the batch system. options: further lines for
    sbatch, as the user gave them.
    """

    campaign: str  # absolute
    ranks: int
    python: str
    minutes: int = 0
    options: Sequence[str] = ()
    setup: Sequence[str] = ()

    @property
    def path(self) -> str:
        """Where its script lies."""
        return os.path.join(self.campaign, JOBS, f"p{self.ranks}.sh")

    def script(self) -> str:
        """The text of the job script.

        All jobs of a campaign have one name and run one at a time (--dependency=singleton), since
        a campaign has one writer.
        """
        name = NAME.sub("-", os.path.basename(self.campaign))
        asked = [
            f"--job-name={name}",
            f"--ntasks={self.ranks}",
            f"--output={os.path.join(self.campaign, JOBS, f'p{self.ranks}-%j.log')}",
            "--dependency=singleton",
            *([f"--time={self.minutes}"] if self.minutes else []),
            *self.options,
        ]
        words = [self.python, "-m", "insitu", "campaign", "resume", self.campaign]
        inside = ["--ranks", str(self.ranks), "--launcher", "srun"]
        return "\n".join(
            [
                "#!/bin/bash",
                *(f"#SBATCH {option}" for option in asked),
                "# Change what your machine wants; `insitu campaign` keeps a script that is there.",
                f"cd {shlex.quote(os.path.dirname(self.campaign))}",
                *self.setup,
                shlex.join([*words, *inside]),
                "",
            ]
        )

    def write(self) -> str:
        """Write the script where there is none yet; answers its path.

        Raises:
            LaunchError: it cannot be written.
        """
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            if not os.path.exists(self.path):
                with open(self.path, "w", encoding="utf-8") as file:
                    file.write(self.script())
                os.chmod(self.path, 0o700)
        except OSError as error:
            raise LaunchError(f"{self.path}: cannot be written: {error.strerror}") from error
        return self.path


def submit(path: str) -> str:
    """Hand a script to sbatch; answers the number of the job.

    Raises:
        LaunchError: there is no sbatch, or it refuses.
    """
    program = shutil.which("sbatch")
    if program is None:
        raise LaunchError(
            "no sbatch on PATH: this is no login node of a Slurm cluster; use --launcher mpiexec"
        )
    answer = _ask([program, "--parsable", path])
    found = _NUMBER.match(answer)
    if found is None:
        raise LaunchError(f"sbatch {path}: answered '{answer}'")
    return found.group()


def queued(names: str) -> list[str]:
    """The jobs of that name that wait or run, as `number state`.

    Raises:
        LaunchError: squeue cannot be asked.
    """
    program = shutil.which("squeue")
    if program is None:
        return []
    name = NAME.sub("-", names)
    return _ask([program, "--noheader", "--name", name, "--format", "%i %T"]).splitlines()


def _ask(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{command[0]}: does not answer: {error}") from error
    if done.returncode:
        raise LaunchError(f"{shlex.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()
