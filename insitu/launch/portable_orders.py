"""Carries out an order for PSI/J: JSON on standard input, the answer in the last line of output.

The Python that runs this has psij-python but not necessarily insitu, which is not imported.
"""

import io
import json
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

STATE_TIMEOUT_S = 20.0  # for the batch system to report a state


def main() -> None:
    """Read an order, carry it out, and print the answer."""
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
        messages = []
        for reason in (error, error.__cause__):
            if reason:
                messages.append(str(reason).strip() or type(reason).__name__)
        answer = {"error": ": ".join(messages)}

    print("\n" + json.dumps(answer), flush=True)


def _executor(psij: Any, order: dict[str, Any], work: str) -> Any:
    config = None
    if order["executor"] not in ("local", "flux"):
        from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig

        config = BatchSchedulerExecutorConfig(
            work_directory=Path(work), queue_polling_interval=1, initial_queue_polling_delay=0
        )
        config.keep_files = True  # the job still needs them when this process has ended
    else:
        config = psij.JobExecutorConfig(work_directory=Path(work))
    return psij.JobExecutor.get_instance(order["executor"], config=config)


def _job(psij: Any, spec: dict[str, Any]) -> Any:
    attributes = psij.JobAttributes(
        duration=timedelta(minutes=spec["minutes"]),
        custom_attributes=spec["custom"],
        **spec["attributes"],
    )
    job_spec = psij.JobSpec(
        executable=spec["executable"],
        arguments=spec["arguments"],
        directory=Path(spec["directory"]),
        stdout_path=Path(spec["output"]),
        stderr_path=Path(spec["output"]),
        resources=psij.ResourceSpecV1(**spec["resources"]),
        attributes=attributes,
        launcher="single",
    )
    return psij.Job(job_spec)


def _preview(psij: Any, order: dict[str, Any]) -> dict[str, Any]:
    """Return the script that would be submitted or, for executors without one, the command."""
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
    deadline = time.monotonic() + STATE_TIMEOUT_S
    while job.native_id is None:  # Flux assigns it later
        if time.monotonic() > deadline or job.status.final:
            raise TimeoutError(f"no job id within {STATE_TIMEOUT_S:g} s: {job.status}")
        time.sleep(0.05)
    return {"id": str(job.native_id)}


def _states(psij: Any, order: dict[str, Any]) -> dict[str, Any]:
    """Return the state of jobs by id; a job that the batch system has forgotten is completed."""
    from psutil import NoSuchProcess

    executor = _executor(psij, order, order["work"])
    jobs = {number: psij.Job() for number in order["ids"]}
    for number, job in jobs.items():
        try:
            executor.attach(job, number)
        except NoSuchProcess:  # raised by the local executor
            jobs[number] = None
    deadline = time.monotonic() + STATE_TIMEOUT_S
    for number, job in jobs.items():
        while job is not None and job.status.state is psij.JobState.NEW:
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {number}: no state within {STATE_TIMEOUT_S:g} s")
            time.sleep(0.05)

    states = {}
    for number, job in jobs.items():
        states[number] = "COMPLETED" if job is None else job.status.state.name
    return {"states": states}


if __name__ == "__main__":
    main()
