"""Orders to PSI/J: one JSON object on standard input, the answer on the last line of the output.

Run by the Python that has psij-python, which need not have insitu: this file imports nothing of it.
"""

import io
import json
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

STATE_S = 20.0  # for the batch system to tell a state


def main() -> None:
    """Read an order, carry it out, answer."""
    order = json.load(sys.stdin)
    try:
        import psij
        import psutil
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    actions = {"preview": _preview, "submit": _submit, "states": _states}
    try:
        answer = actions[order["action"]](psij, order)
    except (
        psij.SubmitException,
        psij.InvalidJobException,
        ValueError,
        OSError,
        psutil.Error,
    ) as error:
        told = [str(one).strip() or type(one).__name__ for one in (error, error.__cause__) if one]
        answer = {"error": ": ".join(told)}
    print("\n" + json.dumps(answer), flush=True)


def _executor(psij: Any, order: dict[str, Any], work: str) -> Any:
    config = None
    if order["executor"] not in ("local", "flux"):
        from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig

        config = BatchSchedulerExecutorConfig(
            work_directory=Path(work), queue_polling_interval=1, initial_queue_polling_delay=0
        )
        config.keep_files = True  # the job outlives this process, which reads nothing of it
    else:
        config = psij.JobExecutorConfig(work_directory=Path(work))
    return psij.JobExecutor.get_instance(order["executor"], config=config)


def _job(psij: Any, told: dict[str, Any]) -> Any:
    attributes = psij.JobAttributes(
        duration=timedelta(minutes=told["minutes"]),
        custom_attributes=told["custom"],
        **told["attributes"],
    )
    spec = psij.JobSpec(
        executable=told["executable"],
        arguments=told["arguments"],
        directory=Path(told["directory"]),
        stdout_path=Path(told["output"]),
        stderr_path=Path(told["output"]),
        resources=psij.ResourceSpecV1(**told["resources"]),
        attributes=attributes,
        launcher="single",
    )
    return psij.Job(spec)


def _preview(psij: Any, order: dict[str, Any]) -> dict[str, Any]:
    """The script that the batch system would get, or the command where there is none."""
    job = _job(psij, order["spec"])
    command = " ".join([order["spec"]["executable"], *order["spec"]["arguments"]])
    if order["executor"] in ("local", "flux"):
        return {"text": command + "\n"}
    with tempfile.TemporaryDirectory() as work:
        executor = _executor(psij, order, work)
        text = io.StringIO()
        executor.generate_submit_script(job, executor._create_script_context(job), text)
    return {"text": text.getvalue()}


def _submit(psij: Any, order: dict[str, Any]) -> dict[str, Any]:
    executor = _executor(psij, order, order["work"])
    job = _job(psij, order["spec"])
    executor.submit(job)
    deadline = time.monotonic() + STATE_S
    while job.native_id is None:  # Flux tells it later
        if time.monotonic() > deadline or job.status.final:
            raise TimeoutError(f"no number within {STATE_S:g} s: {job.status}")
        time.sleep(0.05)
    return {"id": str(job.native_id)}


def _states(psij: Any, order: dict[str, Any]) -> dict[str, Any]:
    """The state of jobs by their numbers; what the batch system has forgotten has ended."""
    from psutil import NoSuchProcess

    executor = _executor(psij, order, order["work"])
    jobs = {number: psij.Job() for number in order["ids"]}
    for number, job in jobs.items():
        try:
            executor.attach(job, number)
        except NoSuchProcess:  # of the local executor
            jobs[number] = None
    deadline = time.monotonic() + STATE_S
    for number, job in jobs.items():
        while job is not None and job.status.state is psij.JobState.NEW:
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing is known of job {number} after {STATE_S:g} s")
            time.sleep(0.05)
    found = {n: "COMPLETED" if job is None else job.status.state.name for n, job in jobs.items()}
    return {"states": found}


if __name__ == "__main__":
    main()
