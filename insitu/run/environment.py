"""The environment variables that make the ranks of a run measure themselves."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from insitu.campaign import layout
from insitu.collectors import library
from insitu.collectors.elf import is_of_musl
from insitu.collectors.steering import VARIABLE
from insitu.errors import LaunchError
from insitu.run.options import Options

# The address sanitizer ends a program if another library is loaded before its own. preload.c and
# start_in_rank.py remove this word again.
SANITIZER_OPTION = "verify_asan_link_order=0"
# Names of the variables that a run sets. Other names that begin with INSITU_ are the user's.
VARIABLES = "INSITU_VARIABLES"
IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")
COERCED_LOCALES = ("C.UTF-8", "C.utf8", "UTF-8")  # PEP 538
MAX_WORDS = 50  # of the command that are stored with a run
MAX_WORD_LENGTH = 200


def run_metadata(
    options: Options, run: str, campaign: str, throttled: Sequence[str]
) -> dict[str, object]:
    """Return what every table records about its run."""
    from insitu import __version__

    return {
        "run": run,
        "campaign": campaign,
        "parameters": options.parameters,
        "command": [word[:MAX_WORD_LENGTH] for word in options.command[:MAX_WORDS]],
        "beat": options.beat,
        "only": list(options.steering.only),
        "skip": list(options.steering.skip),
        "packages": list(options.steering.packages),
        "throttled": list(throttled) if options.steering.budget else [],
        "iterations": options.iterations,
        "builds": _builds(options),
        "python": ".".join(map(str, sys.version_info[:3])),
        "insitu": __version__,
    }


def _builds(options: Options) -> dict[str, str]:
    """The build of the program by its name, for ranks that end before their agent looks for it."""
    from insitu.collectors.builds import identify_program
    from insitu.launch.find import program_argv, program_path

    try:
        argv = program_argv(options.command)
        name, build = identify_program(program_path(argv), argv[1:], os.getcwd())
    except (OSError, LaunchError):
        return {}  # the start says why
    return {name: build} if build else {}


def rank_environment(
    options: Options, run: str, campaign: str, throttled: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variables that make a Python process of a run measure itself.

    Args:
        options: the command line of the run.
        run: id of the run.
        campaign: absolute path of the campaign.
        throttled: functions that its earlier runs throttled, which count for their callers.

    Raises:
        LaunchError: the native library writes tables of another layout.
    """
    import json  # neither is needed by ranks that `insitu run` started

    from insitu.collectors import library_layout

    native = library.find()
    if native and not library_layout.is_current(native):
        raise LaunchError(
            f"{native} was built from the sources of another insitu, and what it measures cannot be"
            " read: build it again (`python3 bootstrap.py`, or install insitu again)"
        )

    here = os.path.dirname(os.path.abspath(__file__))
    site = os.path.join(os.path.dirname(os.path.abspath(library.__file__)), "site")
    original = os.environ.get("PYTHONPATH", "")

    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, (site, original))),
        "INSITU_SITE": site,
        "INSITU_RUN": run,
        "INSITU_META": json.dumps(run_metadata(options, run, campaign, throttled)),
        "INSITU_HOME": os.path.dirname(os.path.dirname(here)),
        "INSITU_LIBRARY": native,
        "INSITU_PYTHON": sys.executable,
        "INSITU_AGENT": options.agent,
        "INSITU_HEAP": options.heap,
        "INSITU_SAMPLE": str(options.sample),
        "INSITU_SAMPLE_PYTHON": str(options.sample if options.samples_python else 0),
        "INSITU_FILES": options.files,
        "INSITU_GPU": options.gpu,
        "INSITU_ITERATIONS": str(options.iterations),
        VARIABLE: str(options.steering),
        "INSITU_TROUBLE": trouble_file(run, campaign),
    }
    if original:
        environment["INSITU_PYTHONPATH"] = original
    return environment | _restorable(environment)


def _restorable(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a rank needs to leave the program the `INSITU_…` variables of its user.

    The names are those that this run sets. `INSITU_USER_NAME` is what the user set under NAME.
    """
    names = {name for name in environment if name.startswith("INSITU_")}
    names |= {"INSITU_SINGLE", "INSITU_PYTHONPATH", VARIABLES}
    saved = {
        f"INSITU_USER_{name}": os.environ[name] for name in sorted(names) if name in os.environ
    }
    return {VARIABLES: " ".join(sorted(names)), **saved}


def trouble_file(run: str, campaign: str) -> str:
    """Return the file into which ranks write why they cannot be measured."""
    return os.path.join(campaign, layout.LOGS, f"trouble-{run}")


def preload_environment(program: str) -> dict[str, str]:
    """Return the variables that make a compiled rank measure itself, and any rank its heap.

    Empty if the path of the library has a character that separates paths in LD_PRELOAD, or if the
    dynamic linker of the program is that of musl, which would end it.
    """
    path = library.find()
    has_separator = bool(set(path) & set(" \t\n:"))
    if not path or has_separator or _is_of_musl(program):
        return {}

    # Each rank removes these words again before its first line or its main.
    preloads = (path, os.environ.get("LD_PRELOAD", ""))
    sanitizer_options = (os.environ.get("ASAN_OPTIONS", ""), SANITIZER_OPTION)
    return {
        "LD_PRELOAD": ":".join(filter(None, preloads)),
        "ASAN_OPTIONS": ":".join(filter(None, sanitizer_options)),
    }


def _is_of_musl(program: str) -> bool:
    try:
        return is_of_musl(program)
    except OSError:
        return False


def program_environment() -> dict[str, str]:
    """Return the environment of this process as its user set it.

    Without a locale, Python sets LC_CTYPE for itself and its children (PEP 538).
    """
    environment = dict(os.environ)
    if environment.get("LC_CTYPE") in COERCED_LOCALES and not _was_set("LC_CTYPE"):
        del environment["LC_CTYPE"]
    return environment


def _was_set(name: str) -> bool:
    """Whether this process was started with a variable."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return any(entry.startswith(f"{name}=".encode()) for entry in file.read().split(b"\0"))
    except OSError:
        return True


def restore_signals() -> None:
    """Let a program that replaces this process have the signals that Python ignores."""
    for name in IGNORED_BY_PYTHON:
        signal.signal(getattr(signal, name), signal.SIG_DFL)


class InheritedState:
    """What `insitu run` changes of what it inherited, and its program gets as it was.

    Attributes:
        mask: the blocked signals.
    """

    def __init__(self) -> None:
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._closed = [number for number in (0, 1, 2) if not _is_open(number)]
        # If it were ignored, the kernel would keep no exit codes.
        self._child_action = signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def restore(self) -> None:
        """Restore everything in the child that becomes the program."""
        for number in self._closed:  # SQLite has opened /dev/null there
            with suppress(OSError):
                os.close(number)
        signal.signal(signal.SIGCHLD, self._child_action)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def campaign_directory(options: Options) -> str:
    """Return the absolute path of the campaign; by default it is named after the program."""
    if options.campaign:
        return os.path.abspath(options.campaign)
    word = next((word for word in options.command if word not in ("-m", "-c")), "program")
    stem = os.path.basename(os.path.normpath(word)).removesuffix(".py") or "program"
    return os.path.abspath(f"{stem}.insitu")
