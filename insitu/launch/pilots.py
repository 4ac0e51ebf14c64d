"""Running a command with a time limit: pilot runs, and the runs of a campaign."""

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
TIMEOUT_CODE = 124  # exit code of a command that timed out, as of timeout(1)
SHOWN_LINES = 5  # of the output of a pilot run that failed


@dataclass(frozen=True, slots=True)
class CommandExit:
    """How a command ended: exit code (128 + N for signal N, or TIMEOUT_CODE) and duration."""

    code: int
    seconds: float


def fill(template: Sequence[str], values: Mapping[str, float]) -> list[str]:
    """Replace parameters in a command: `app.py {n}` with n = 64 becomes `app.py 64`.

    Raises:
        UsageError: the template names an unknown parameter, or has an invalid placeholder.
    """
    texts = {name: number(value) for name, value in values.items()}
    try:
        return [word.format_map(texts) for word in template]
    except KeyError as error:
        raise UsageError(
            f"the command names {{{error.args[0]}}}, which is not a parameter; the parameters are"
            f" {', '.join(values)}"
        ) from error
    except (ValueError, IndexError) as error:
        command = " ".join(template)
        raise UsageError(f"`{command}`: {error}; parameters are written {{n}}") from error


def program_at(command: Sequence[str]) -> int:
    """Return the index of the program in a command, after a launcher and its options.

    Raises:
        UsageError: there is a launcher but no program.
    """
    if os.path.basename(command[0]) not in LAUNCHER_NAMES:
        return 0
    for at, word in enumerate(command[1:], start=1):
        if not word.startswith("-") and (word.endswith(".py") or shutil.which(word)):
            return at
    raise UsageError(f"`{' '.join(command)}`: no program after the launcher")


def run_bounded(
    command: Sequence[str],
    timeout_s: float,
    *,
    output: IO[bytes],
    environment: Mapping[str, str] | None = None,
    directory: str | None = None,
    kept_open: Sequence[int] = (),
) -> CommandExit:
    """Run a command with a time limit, after which all its processes are ended.

    An exception, such as KeyboardInterrupt, ends the command as well.

    Args:
        command: the command.
        timeout_s: the time limit.
        output: file for standard output and standard error.
        environment: variables to add to those of this process.
        directory: working directory; default: that of this process.
        kept_open: descriptors that the command inherits, so that a lock is held while it lives.

    Raises:
        LaunchError: the command cannot be started.
    """
    started_at = time.monotonic()
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
        return CommandExit(TIMEOUT_CODE, time.monotonic() - started_at)
    except BaseException:
        _end(process)
        raise

    return CommandExit(code if code >= 0 else 128 - code, time.monotonic() - started_at)


def run_pilot(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> None:
    """Run a command that must succeed.

    Raises:
        LaunchError: it cannot be started, failed, or took longer than `timeout_s` seconds; with
            the last lines of its output.
    """
    import tempfile

    with tempfile.TemporaryFile() as output:
        result = run_bounded(command, timeout_s, output=output, environment=environment)
        if result.code == 0:
            return
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()[-SHOWN_LINES:]

    if result.code == TIMEOUT_CODE and result.seconds >= timeout_s:
        raise LaunchError(
            f"`{' '.join(command)}` took longer than {timeout_s:g} s and was ended;"
            " use smaller values or a longer --timeout"
        )
    raise LaunchError(
        f"`{' '.join(command)}` failed with exit code {result.code}: {' | '.join(lines)}"
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a command and all processes that it started."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal_number)
            process.wait(GRACE_S)
        except ProcessLookupError:
            process.wait()
            return
        except subprocess.TimeoutExpired:
            continue
        return
