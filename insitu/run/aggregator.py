"""The aggregator of a run: one that serves the campaign already, or a process for this run."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from insitu.blas_threads import use_one_blas_thread
from insitu.campaign import layout
from insitu.campaign.listener import find_address
from insitu.campaign.reachability import (
    ListenerStatus,
    Reachability,
    find_listener,
    is_stopped,
)
from insitu.collectors.own_environment import own_environment
from insitu.run.summary import print_message

START_TIMEOUT_S = 20.0  # for an aggregator to publish its address
STOP_TIMEOUT_S = 120.0  # for the last values and the completed run
POLL_S = 0.02
STATUS_S = 0.5  # between two questions to an aggregator that this object did not start


class AggregatorProcess:
    """The aggregator of a campaign, which this object starts only if none is running.

    Attributes:
        process: the aggregator that this object started; None if another one serves the campaign.
        status: the aggregator that serves the campaign, as of the last `look`.
    """

    def __init__(self, campaign: str, run: str) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._campaign = campaign
        self._run = run
        self._log = os.path.join(campaign, layout.SERVER_LOG)
        self._expected = os.path.join(campaign, layout.AGGREGATOR_EXPECTED)
        self._address_path = os.path.join(campaign, layout.AGGREGATOR_ADDRESS)
        self.status = ListenerStatus(Reachability.ABSENT)
        self._looked_at = 0.0

    def start(self) -> None:
        """Find an aggregator or start one, without waiting: agents wait until it is there."""
        self.status = find_listener(self._campaign)
        if self.status.reachability is Reachability.UNREACHABLE:
            print_message(self.describe_unreachable())
        if self.status.reachability is not Reachability.ABSENT:
            return

        with suppress(OSError):  # without this file, agents only wait for a shorter time
            os.close(os.open(self._expected, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

        command = [sys.executable, "-P", "-m", "insitu", "serve", self._campaign]
        command += ["--exit-with", self._run, "--parent", str(os.getpid())]
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=own_process_environment(),
            )

    def await_address(self) -> None:
        """Wait until the aggregator publishes its address.

        If it does not start, this prints why; the tables of the ranks remain.
        """
        if self.process is None:
            return

        deadline = time.monotonic() + START_TIMEOUT_S
        while find_address(self._address_path) is None:
            if self._is_replaced():
                return
            status = self.process.poll()
            if status == 0:
                return  # it has stored the run and ended, which removes its address
            if status is not None:
                print_message(
                    f"the aggregator did not start ({self.failure_reason()}); the tables of the"
                    " ranks are ingested when the run ends"
                )
                self.stop_expecting()
                return
            if time.monotonic() > deadline:
                print_message(
                    f"the aggregator has no address after {START_TIMEOUT_S:.0f} s, but its process"
                    f" {self.process.pid} runs; {self._log} may say why"
                )
                self.stop_expecting()
                return
            self.pause(POLL_S)

    def stop_expecting(self) -> None:
        """Let agents no longer wait for an aggregator."""
        with suppress(OSError):
            os.unlink(self._expected)

    def pause(self, seconds: float) -> None:
        """Wait for some seconds, or until the aggregator that this object started ends."""
        if self.process is None or not hasattr(os, "pidfd_open"):
            time.sleep(min(seconds, 0.05))
            return
        with suppress(OSError):
            descriptor = os.pidfd_open(self.process.pid)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll(1000 * seconds)
            os.close(descriptor)

    def look(self) -> Reachability:
        """Look whether there is an aggregator that can complete the run."""
        if self.process is not None and not self._is_replaced():
            if self.process.poll() is not None:
                return Reachability.ABSENT
            is_stuck = is_stopped(self.process.pid)
            return Reachability.UNREACHABLE if is_stuck else Reachability.REACHABLE

        if time.monotonic() - self._looked_at >= STATUS_S:
            self.status = find_listener(self._campaign)
            self._looked_at = time.monotonic()
        return self.status.reachability

    def _is_replaced(self) -> bool:
        """Whether the aggregator that this object started ended because another one serves."""
        if self.process is None or self.process.poll() in (None, 0):
            return False
        self.status = find_listener(self._campaign)
        if self.status.reachability is Reachability.ABSENT:
            return False
        self.process = None
        return True

    def describe_unreachable(self) -> str:
        """Return who serves the campaign without answering, and what becomes of the run."""
        return (
            f"an aggregator ({self.status.holder}) serves this campaign but does not answer:"
            f" {self.status.reason}. The tables of this run wait in the campaign until it does"
        )

    def kill(self) -> None:
        """Kill the aggregator that this object started and that does not run any more.

        Its journal keeps everything that it has promised to agents.
        """
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """End the aggregator that this object started; it completes the runs that it can."""
        if self.process is None:
            return
        self.stop_expecting()
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def failure_reason(self) -> str:
        """Return why the aggregator ended: the signal, or the last line of its log."""
        if self.process is not None and (self.process.poll() or 0) < 0:
            return f"killed by signal {-self.process.returncode}"
        try:
            with open(self._log, encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file if line.strip()]
        except OSError:
            return "it has no log"
        return lines[-1] if lines else "its log is empty"


def own_process_environment() -> dict[str, str]:
    """Return the environment of insitu's own processes that this one starts."""
    environment = own_environment(with_insitu_importable(os.environ))
    use_one_blas_thread(environment)
    return environment


def with_insitu_importable(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python imports insitu from where this process did."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, (home, environment.get("PYTHONPATH", ""))))
    return {**environment, "PYTHONPATH": path}
