"""The program of a run from outside: starts it, forwards signals, waits until it has ended."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import NamedTuple

from insitu.errors import LaunchError
from insitu.launch.base import Command
from insitu.launch.find import program_path
from insitu.run.environment import InheritedState, program_environment

# All that would end this process and may have been sent for the program, also by an alarm that was
# set before `insitu run` began.
FORWARDED = (
    *(signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT),
    *(signal.SIGINT, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO),
    *(signal.SIGPWR, signal.SIGXCPU, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)),
)
GROUP_S = 0.05  # from the first process of a group or job that gets a signal to the last


class ProgramEnd(NamedTuple):
    """How a program ended, which may be a launcher of ranks."""

    program: str  # name or path
    code: int  # 128 + N if signal N ended it
    received: int = 0  # the last signal that was sent to this process; 0 if there was none


class GroupWitness:
    """A process of the same process group, which shows whether a signal was sent to all of it.

    `timeout`, `scancel` and terminals send signals to whole groups or jobs, so the program gets
    them anyway. If they were forwarded as well, it would get them twice. The witness blocks these
    signals, so those that were sent to it stay pending.

    Must be created while the signals of `FORWARDED` are blocked, which it inherits.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):  # without it, signals are forwarded
            self._process = subprocess.Popen(
                ["cat"],  # ends with this process, whose end of the pipe nobody inherits
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def has(self, number: int) -> bool:
        """Whether the witness has got a signal."""
        if self._process is None:
            return False
        with suppress(OSError), open(f"/proc/{self._process.pid}/status", encoding="utf-8") as file:
            for line in file:
                if line.startswith("ShdPnd:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
        return False

    def end(self) -> None:
        """Let the process end."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def run_program(command: Command, inherited: InheritedState) -> ProgramEnd:
    """Run a program and forward the signals that were sent to this process alone.

    Args:
        command: what to run.
        inherited: what the program gets as this process did.

    Raises:
        LaunchError: the program cannot be started.
    """
    awaited = {*FORWARDED, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    witness = GroupWitness()
    try:
        program = subprocess.Popen(
            command.argv,
            env={**program_environment(), **command.environment},
            close_fds=False,  # what the user opened for the program; our own are not inheritable
            preexec_fn=inherited.restore,  # noqa: PLW1509  safe: this process has no other thread
        )
    except OSError as error:
        witness.end()
        signal.pthread_sigmask(signal.SIG_SETMASK, inherited.mask)
        exists = os.path.exists(program_path(command.argv))
        reason = error.strerror
        if isinstance(error, FileNotFoundError) and exists:
            reason = "the interpreter named in its first line does not exist"
        raise LaunchError(f"{command.argv[0]}: cannot be started: {reason}") from error

    received = 0
    while program.poll() is None:
        info = signal.sigtimedwait(awaited, 1.0)
        if info is None or info.si_signo not in FORWARDED:  # SIGCHLD, or no signal at all
            continue
        received = info.si_signo
        time.sleep(GROUP_S)
        if witness.has(received):
            # `timeout` sends a signal to this process and then to the group.
            signal.sigtimedwait({received}, 0)
            witness.end()
            witness = GroupWitness()
        elif not (info.si_code > 0 and received == signal.SIGXCPU):  # of our own processor time
            program.send_signal(received)

    witness.end()
    signal.pthread_sigmask(signal.SIG_SETMASK, inherited.mask)
    code = program.returncode
    return ProgramEnd(command.argv[0], code if code >= 0 else 128 - code, received)
