"""PBS, LSF, Flux and others through PSI/J, in whatever Python has it."""

import json
import math
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from insitu.errors import LaunchError
from insitu.launch.batch import JOBS, BatchJob, ask

SCHEME = "psij:"  # psij:pbs
RECORD = os.path.join(JOBS, "psij.jsonl")
ORDERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "portable_orders.py")
# Says that a job begins when the one before has ended, where the batch system can. PSI/J would put
# LSF's ended(5) into quotes that LSF takes literally; a number alone means done(5), and the script
# of PSI/J ends well however our runs end.
AFTER: Mapping[str, tuple[str, str]] = {
    "slurm": ("slurm.dependency", "afterany:{}"),
    "pbs": ("pbs.W", "depend=afterany:{}"),
    "pbs_classic": ("pbs.W", "depend=afterany:{}"),
    "lsf": ("lsf.w", "{}"),
}
INSIDE: Mapping[str, str] = {"slurm": "srun", "flux": "flux"}  # others have an mpiexec that knows
OWN_JOB: Mapping[str, str] = {  # where a job finds its number, as submission answered it
    "slurm": "SLURM_JOB_ID",
    "pbs": "PBS_JOBID",
    "pbs_classic": "PBS_JOBID",
    "lsf": "LSB_JOBID",
}
FINAL = frozenset(("COMPLETED", "FAILED", "CANCELED"))
OWN = ("python", "per_node")  # what is ours in the table `psij`
FIELDS = ("queue_name", "account", "reservation_id")  # of PSI/J's JobAttributes


@dataclass(frozen=True, slots=True)
class PSIJ:
    """PSI/J's executor of that name.

    PSI/J pins the versions of packages that others need newer, so it is never imported here: a
    Python that has it, `options["python"]` or this one, is given orders.

    options: the table `psij` of campaign.toml: `python`, `per_node` (ranks on a node; all on one
    where it is not said), attributes of PSI/J (`queue_name`, `account`, `reservation_id`), and the
    batch system's own, as `"pbs.l"`.
    """

    campaign: str
    executor: str
    options: Mapping[str, Any]

    def preview(self, job: BatchJob) -> str:
        """The script that makes the runs, and the one that PSI/J would hand over."""
        answer = self._order("preview", spec=self.spec(job))
        return f"{job.text()}# PSI/J hands over to {self.executor}:\n{answer['text']}"

    def submit(self, job: BatchJob) -> str:
        """Hand it over, behind the last one that has not ended."""
        job.write(job.text())
        open_ones = self._open()
        spec = self.spec(job, after=open_ones[-1][0] if open_ones else "")
        number = str(self._order("submit", spec=spec)["id"])
        path = os.path.join(self.campaign, RECORD)
        try:
            with open(path, "a", encoding="utf-8") as file:
                line = {"executor": self.executor, "id": number, "ranks": job.ranks}
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise LaunchError(
                f"{path}: job {number} runs, but cannot be noted: {error.strerror}"
            ) from error
        return number

    def queued(self) -> list[str]:
        """What PSI/J says of the jobs that were handed over; without the one that asks."""
        own = os.environ.get(OWN_JOB.get(self.executor, ""))
        return [f"{number} {state}" for number, state in self._open() if number != own]

    def spec(self, job: BatchJob, after: str = "") -> dict[str, Any]:
        """What PSI/J is told of a job.

        One process is asked to run the script; under Flux one per node starts an instance of Flux
        in the job, and the script once in it, as `flux batch` does.
        """
        per_node = int(self.options.get("per_node", job.ranks))
        nodes = math.ceil(job.ranks / per_node)
        on_each = math.ceil(job.ranks / nodes)
        is_flux = self.executor == "flux"
        shape = {"process_count": nodes, "cpu_cores_per_process": on_each}
        own = {name: text for name, text in self.options.items() if name not in (*OWN, *FIELDS)}
        key, form = AFTER.get(self.executor, ("", ""))
        return {
            "executable": "flux" if is_flux else "/bin/bash",
            "arguments": [*(["start"] if is_flux else []), job.path],
            "directory": os.path.dirname(self.campaign),
            "output": os.path.join(self.campaign, JOBS, f"p{job.ranks}.log"),
            "minutes": job.minutes * job.rounds,
            "resources": shape if is_flux else {"node_count": nodes, "processes_per_node": on_each},
            "attributes": {name: self.options[name] for name in FIELDS if name in self.options},
            "custom": ({key: form.format(after)} if after and key else {}) | own,
        }

    def _open(self) -> list[tuple[str, str]]:
        """Number and state of the jobs that have not ended, in the order of submission."""
        try:
            with open(os.path.join(self.campaign, RECORD), encoding="utf-8") as file:
                noted = [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise LaunchError(f"{self.campaign}: {RECORD} cannot be read: {error}") from error
        numbers = [str(one["id"]) for one in noted if one["executor"] == self.executor]
        states = self._order("states", ids=numbers)["states"]
        return [(number, states[number]) for number in numbers if states[number] not in FINAL]

    def _order(self, action: str, **order: Any) -> dict[str, Any]:
        """Have it carried out, see `portable_orders.py`.

        Raises:
            LaunchError: there is no PSI/J, or it fails.
        """
        named = str(self.options.get("python", sys.executable))
        python = shutil.which(os.path.expanduser(named))
        if python is None:
            raise LaunchError(f"{named}: no such Python; psij = {{ python = … }} names one")
        work = os.path.join(self.campaign, JOBS, "psij")
        asked = {"action": action, "executor": self.executor, "work": work, **order}
        said = ask([python, ORDERS], json.dumps(asked)).splitlines()
        answer: dict[str, Any] = json.loads(said[-1]) if said else {"error": "no answer"}
        if "missing" in answer:
            raise LaunchError(
                f"{python} has no PSI/J ({answer['missing']}): pip install 'insitu[psij]', or"
                " install psij-python into another environment and name its Python:"
                ' psij = { python = "/path/to/bin/python" }'
            )
        if "error" in answer:
            raise LaunchError(f"PSI/J in {python}, {self.executor}: {answer['error']}")
        return answer
