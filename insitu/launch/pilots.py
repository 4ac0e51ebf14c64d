"""Running a command for its exit, with a time limit: pilots of a campaign."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

from insitu.entities import number
from insitu.errors import LaunchError, UsageError
from insitu.launch.base import LAUNCHER_NAMES

GRACE_S = 5.0  # between SIGTERM and SIGKILL
SHOWN_LINES = 5


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


def run_pilot(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> None:
    """Run a command to its end, its output kept away from the terminal.

    Raises:
        LaunchError: it could not be started, failed, or took longer than `timeout_s` seconds; all
            its processes are ended then.
    """
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise LaunchError(f"`{' '.join(command)}`: {error.strerror}") from error
    try:
        _, said = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        raise LaunchError(
            f"`{' '.join(command)}` took longer than {timeout_s:g} s and was ended;"
            " give it smaller values or a longer --timeout"
        ) from None
    except BaseException:
        _end(process)
        raise
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines()[-SHOWN_LINES:]
        raise LaunchError(
            f"`{' '.join(command)}` ended with exit code {process.returncode}: {' | '.join(lines)}"
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    for number_of_signal in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number_of_signal)
            process.communicate(timeout=GRACE_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return
