"""What PSI/J is told and what it answers, with a stand-in of its interface.

PSI/J runs in a Python of its own, see `test_batch.py`; batch systems that forget jobs or never
answer are not at hand.
"""

import io
import json
import sys
from enum import Enum
from types import ModuleType, SimpleNamespace

import pytest

from insitu.launch import portable_orders

SPEC = {
    "executable": "/bin/bash",
    "arguments": ["p4.sh"],
    "directory": "/tmp",
    "output": "/tmp/p4.log",
    "minutes": 30,
    "resources": {"node_count": 1},
    "attributes": {"queue_name": "test"},
    "custom": {"pbs.l": "filesystems=home"},
}


class JobState(Enum):
    NEW = 0
    QUEUED = 1
    COMPLETED = 3


class SubmitException(Exception):
    pass


class InvalidJobException(Exception):
    pass


class StandInJob:
    """A job as PSI/J has it; its executor fills in what the batch system says."""

    def __init__(self, spec=None):
        self.spec = spec
        self.native_id = None
        self.status = SimpleNamespace(state=JobState.NEW, final=False)


class StandInExecutor:
    """A batch system that knows job 7, forgets job 8 and says nothing of job 9."""

    def __init__(self, name, config, submit):
        self.name, self.config, self._submit = name, config, submit

    def submit(self, job):
        self._submit(job)

    def attach(self, job, number):
        if number == "8":
            raise sys.modules["psutil"].NoSuchProcess("8")
        if number == "7":
            job.status.state = JobState.QUEUED

    def _create_script_context(self, job):
        return f"{self.name} {job.spec.attributes.duration}"

    def generate_submit_script(self, job, context, text):
        text.write(f"#!/bin/bash\n# {context}\n{job.spec.executable} {job.spec.arguments[0]}\n")


@pytest.fixture
def order(monkeypatch, capsys):
    """Carry out an order as the other Python does; `submit` is what its batch system does."""

    def carry_out(request, submit=lambda job: setattr(job, "native_id", 17)):
        psij, batch = ModuleType("psij"), ModuleType("batch_scheduler_executor")
        for entry in (JobState, SubmitException, InvalidJobException):
            setattr(psij, entry.__name__, entry)
        for name in ("JobAttributes", "JobSpec", "ResourceSpecV1", "JobExecutorConfig"):
            setattr(psij, name, SimpleNamespace)
        psij.Job = StandInJob
        psij.JobExecutor = SimpleNamespace(
            get_instance=lambda name, config: StandInExecutor(name, config, submit)
        )
        batch.BatchSchedulerExecutorConfig = SimpleNamespace
        psutil = ModuleType("psutil")
        psutil.Error = type("Error", (Exception,), {})
        psutil.NoSuchProcess = type("NoSuchProcess", (psutil.Error,), {})
        modules = {
            "psij": psij,
            "psij.executors": ModuleType("executors"),
            "psij.executors.batch": ModuleType("batch"),
            "psij.executors.batch.batch_scheduler_executor": batch,
            "psutil": psutil,
        }
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(portable_orders, "STATE_TIMEOUT_S", 0.0)
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
        portable_orders.main()
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return carry_out


def test_the_script_of_a_batch_system_is_shown_and_the_command_where_there_is_none(order):
    script = order({"action": "preview", "executor": "pbs", "spec": SPEC})["text"]
    command = order({"action": "preview", "executor": "flux", "spec": SPEC})["text"]

    assert script == "#!/bin/bash\n# pbs 0:30:00\n/bin/bash p4.sh\n"
    assert command == "/bin/bash p4.sh\n"


def test_an_accepted_job_is_answered_with_its_id(order):
    answer = order({"action": "submit", "executor": "pbs", "spec": SPEC, "work": "/tmp"})

    assert answer == {"id": "17"}


def test_a_refusal_comes_with_what_the_batch_system_said(order):
    def refuse(job):
        raise SubmitException("qsub failed") from OSError("no such queue")

    request = {"action": "submit", "executor": "pbs", "spec": SPEC, "work": "/tmp"}
    answer = order(request, refuse)

    assert answer == {"error": "qsub failed: no such queue"}


def test_a_batch_system_that_gives_no_id_is_not_waited_for_without_end(order):
    request = {"action": "submit", "executor": "flux", "spec": SPEC, "work": "/tmp"}
    answer = order(request, lambda job: None)

    assert answer["error"].startswith("no job id within 0 s")


def test_a_job_that_is_forgotten_counts_as_completed(order):
    request = {"action": "states", "executor": "local", "ids": ["7", "8"], "work": "/tmp"}
    answer = order(request)

    assert answer == {"states": {"7": "QUEUED", "8": "COMPLETED"}}


def test_a_job_without_a_state_is_named(order):
    request = {"action": "states", "executor": "pbs", "ids": ["7", "9"], "work": "/tmp"}
    answer = order(request)

    assert answer == {"error": "job 9: no state within 0 s"}


def test_a_python_without_psij_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "psij", None)
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"action": "states"}'))

    portable_orders.main()

    assert "psij" in json.loads(capsys.readouterr().out)["missing"]
