"""Python imports this before the program's first line: it starts the program again, counting."""

import os
import sys


def _again() -> None:
    """Execute `python -m insitu.collectors.counting PROGRAM` instead of `python PROGRAM`."""
    words = sys.orig_argv[1:]
    if "INSITU_COUNTS" not in os.environ or "INSITU_COUNTED" in os.environ:
        return
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "-c", "-m"):
        at += 2 if words[at] in ("-W", "-X") else 1
    if at == len(words) or words[at] in ("-", "-c"):
        return
    os.environ["INSITU_COUNTED"] = "1"
    flags = [*words[:at], "-m", "insitu.collectors.counting"]
    os.execv(sys.executable, [sys.executable, *flags, *words[at:]])


def _step_aside() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]


_again()
_step_aside()
_ours = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401  the user's own, which ours stood in front of
except ImportError as _error:
    if _error.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _ours
