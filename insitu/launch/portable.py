"""PBS, LSF, Flux and other batch systems through PSI/J, run by a Python that has it."""

import json
import math
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from insitu.errors import LaunchError
from insitu.launch.batch import JOBS, BatchJob, run_tool

SCHEME = "psij:"  # psij:pbs
RECORD = os.path.join(JOBS, "psij.jsonl")
ORDERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "portable_orders.py")
# The attribute that starts a job after another one has ended, however it ended. For LSF, PSI/J
# would put ended(5) into quotes that LSF takes literally. A number alone means done(5), which is
# sufficient: the script of PSI/J succeeds even if our runs fail.
AFTER: Mapping[str, tuple[str, str]] = {
    "slurm": ("slurm.dependency", "afterany:{}"),
    "pbs": ("pbs.W", "depend=afterany:{}"),
    "pbs_classic": ("pbs.W", "depend=afterany:{}"),
    "lsf": ("lsf.w", "{}"),
}
INSIDE: Mapping[str, str] = {"slurm": "srun", "flux": "flux"}  # for others, mpiexec knows the job
OWN_JOB: Mapping[str, str] = {  # variable with the id of the current job
    "slurm": "SLURM_JOB_ID",
    "pbs": "PBS_JOBID",
    "pbs_classic": "PBS_JOBID",
    "lsf": "LSB_JOBID",
}
FINAL = frozenset(("COMPLETED", "FAILED", "CANCELED"))
OWN_KEYS = ("python", "per_node")  # of the table `psij`, not passed to PSI/J
FIELDS = ("queue_name", "account", "reservation_id")  # of PSI/J's JobAttributes


@dataclass(frozen=True, slots=True)
class PSIJ:
    """An executor of PSI/J.

    PSI/J pins old versions of common packages. Therefore it is never imported here: a Python that
    has it, `options["python"]` or this one, runs `portable_orders.py`.

    Attributes:
        campaign: absolute path of the campaign.
        executor: its name in PSI/J, such as "pbs".
        options: the table `psij` of campaign.toml: `python`; `per_node`, the ranks on a node
            (default: all ranks on one node); attributes of PSI/J (`queue_name`, `account`,
            `reservation_id`); and attributes of the batch system, such as `"pbs.l"`.
    """

    campaign: str
    executor: str
    options: Mapping[str, Any]

    def preview(self, job: BatchJob) -> str:
        """Return the script that makes the runs, and the one that PSI/J would submit."""
        answer = self._order("preview", spec=self.spec(job))
        return f"{job.text()}# submitted by PSI/J to {self.executor}:\n{answer['text']}"

    def submit(self, job: BatchJob) -> str:
        """Submit a job that starts after the last one that has not ended."""
        job.write(job.text())
        unfinished = self._unfinished_jobs()
        spec = self.spec(job, after=unfinished[-1][0] if unfinished else "")
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
                f"{path}: job {number} was submitted, but cannot be recorded: {error.strerror}"
            ) from error

        return number

    def queued_jobs(self) -> list[str]:
        """Return the submitted jobs that have not ended, as `id state`, without the current one."""
        own = os.environ.get(OWN_JOB.get(self.executor, ""))
        return [f"{number} {state}" for number, state in self._unfinished_jobs() if number != own]

    def spec(self, job: BatchJob, after: str = "") -> dict[str, Any]:
        """Return the description of a job for PSI/J.

        One process runs the script. Under Flux, one process per node starts an instance of Flux in
        the job, which runs the script once, as `flux batch` does.

        Args:
            job: the job.
            after: id of a job that must have ended before; empty for none.
        """
        per_node = int(self.options.get("per_node", job.ranks))
        nodes = math.ceil(job.ranks / per_node)
        ranks_per_node = math.ceil(job.ranks / nodes)

        is_flux = self.executor == "flux"
        resources = {"node_count": nodes, "processes_per_node": ranks_per_node}
        if is_flux:
            resources = {"process_count": nodes, "cpu_cores_per_process": ranks_per_node}

        # What is neither ours nor an attribute of PSI/J is an option of the batch system.
        own_keys = (*OWN_KEYS, *FIELDS)
        custom = {name: text for name, text in self.options.items() if name not in own_keys}
        key, form = AFTER.get(self.executor, ("", ""))
        if after and key:
            custom = {key: form.format(after)} | custom

        return {
            "executable": "flux" if is_flux else "/bin/bash",
            "arguments": [*(["start"] if is_flux else []), job.path],
            "directory": os.path.dirname(self.campaign),
            "output": os.path.join(self.campaign, JOBS, f"p{job.ranks}.log"),
            "minutes": job.minutes * job.rounds,
            "resources": resources,
            "attributes": {name: self.options[name] for name in FIELDS if name in self.options},
            "custom": custom,
        }

    def _unfinished_jobs(self) -> list[tuple[str, str]]:
        """Return id and state of the jobs that have not ended, in the order of submission."""
        try:
            with open(os.path.join(self.campaign, RECORD), encoding="utf-8") as file:
                records = [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise LaunchError(f"{self.campaign}: cannot read {RECORD}: {error}") from error
        numbers = [str(record["id"]) for record in records if record["executor"] == self.executor]
        states = self._order("states", ids=numbers)["states"]
        return [(number, states[number]) for number in numbers if states[number] not in FINAL]

    def _order(self, action: str, **order: Any) -> dict[str, Any]:
        """Carry out an order in `portable_orders.py`, and return its answer.

        Raises:
            LaunchError: PSI/J is not installed, or it fails.
        """
        name = str(self.options.get("python", sys.executable))
        python = shutil.which(os.path.expanduser(name))
        if python is None:
            raise LaunchError(
                f"{name}: no such Python; set psij = {{ python = … }} in campaign.toml"
            )

        work = os.path.join(self.campaign, JOBS, "psij")
        request = {"action": action, "executor": self.executor, "work": work, **order}
        output = run_tool([python, ORDERS], json.dumps(request)).splitlines()
        answer: dict[str, Any] = json.loads(output[-1]) if output else {"error": "no answer"}
        if "missing" in answer:
            raise LaunchError(
                f"{python} has no PSI/J ({answer['missing']}): {python} -m pip install"
                " psij-python, or install it into another environment and name its Python:"
                ' psij = { python = "/path/to/bin/python" }'
            )
        if "error" in answer:
            raise LaunchError(f"PSI/J in {python}, {self.executor}: {answer['error']}")

        return answer
