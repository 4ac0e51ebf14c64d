"""Python imports this before the program's first line; it restarts the program with counting."""

import os
import sys


def _restart() -> None:
    """Execute `python -m insitu.collectors.counting PROGRAM` instead of `python PROGRAM`."""
    words = sys.orig_argv[1:]
    if "INSITU_COUNTS" not in os.environ or "INSITU_COUNTED" in os.environ:
        return

    # Skip the options of the interpreter. A program from -c or a pipe cannot be counted.
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "-c", "-m"):
        at += 2 if words[at] in ("-W", "-X") else 1
    if at == len(words) or words[at] in ("-", "-c"):
        return

    os.environ["INSITU_COUNTED"] = "1"
    flags = [*words[:at], "-m", "insitu.collectors.counting"]
    os.execv(sys.executable, [sys.executable, *flags, *words[at:]])


def _restore_path() -> None:
    """Remove this folder from sys.path."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]


_restart()
_restore_path()
_this_module = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401  the user's own, which this module hides
except ImportError as _error:
    if _error.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _this_module
