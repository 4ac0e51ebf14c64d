"""Running a command for its exit, with a time limit: pilots, and the runs of a campaign."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from insitu.entities import number
from insitu.errors import LaunchError, UsageError
from insitu.launch.base import LAUNCHER_NAMES

GRACE_S = 5.0  # between SIGTERM and SIGKILL
LATE = 124  # exit code of what took too long, as timeout(1) has it
SHOWN_LINES = 5


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code (128 + N for signal N, 124 if it was late), how long."""

    code: int
    seconds: float


def fill(template: Sequence[str], values: Mapping[str, float]) -> list[str]:
    """Put parameters into a command: `app.py {n}` with n = 64 is `app.py 64`.

    Raises:
        UsageError: the template names a parameter that has no value, or cannot be read.
    """
    texts = {name: number(value) for name, value in values.items()}
    try:
        return [word.format_map(texts) for word in template]
    except KeyError as error:
        raise UsageError(
            f"the command names {{{error.args[0]}}}, which is no parameter; there are"
            f" {', '.join(values)}"
        ) from error
    except (ValueError, IndexError) as error:
        command = " ".join(template)
        raise UsageError(f"`{command}`: {error}; parameters are written {{n}}") from error


def program_at(command: Sequence[str]) -> int:
    """Where in a command the program stands, behind a launcher and its options.

    Raises:
        UsageError: there is a launcher and no program.
    """
    if os.path.basename(command[0]) not in LAUNCHER_NAMES:
        return 0
    for at, word in enumerate(command[1:], start=1):
        if not word.startswith("-") and (word.endswith(".py") or shutil.which(word)):
            return at
    raise UsageError(f"`{' '.join(command)}`: no program behind the launcher")


def run_bounded(
    command: Sequence[str],
    timeout_s: float,
    *,
    output: IO[bytes],
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
    kept_open: Sequence[int] = (),
) -> Ended:
    """Run a command to its end; after `timeout_s` seconds all its processes are ended.

    Its output and errors go to the file `output`. An interruption ends it, too. Descriptors of
    `kept_open` stay open in it: a lock is held as long as it lives.

    Raises:
        LaunchError: it could not be started.
    """
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=directory,
            pass_fds=kept_open,
        )
    except OSError as error:
        raise LaunchError(f"`{' '.join(command)}`: {error.strerror}") from error
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return Ended(LATE, time.monotonic() - began)
    except BaseException:
        _end(process)
        raise
    return Ended(code if code >= 0 else 128 - code, time.monotonic() - began)


def run_pilot(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> None:
    """Run a command that must not fail.

    Raises:
        LaunchError: it could not be started, failed, or took longer than `timeout_s` seconds.
    """
    import tempfile

    with tempfile.TemporaryFile() as output:
        ended = run_bounded(command, timeout_s, output=output, environment=environment)
        if ended.code == 0:
            return
        output.seek(0)
        said = output.read().decode(errors="replace").strip().splitlines()[-SHOWN_LINES:]
    if ended.code == LATE and ended.seconds >= timeout_s:
        raise LaunchError(
            f"`{' '.join(command)}` took longer than {timeout_s:g} s and was ended;"
            " give it smaller values or a longer --timeout"
        )
    raise LaunchError(
        f"`{' '.join(command)}` ended with exit code {ended.code}: {' | '.join(said)}"
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a command and everything it started."""
    for wanted in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, wanted)
            process.wait(GRACE_S)
        except ProcessLookupError:
            process.wait()
            return
        except subprocess.TimeoutExpired:
            continue
        return
