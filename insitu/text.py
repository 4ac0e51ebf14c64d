"""Words for what programs print and how they end."""

import codecs
import signal
import sys
from collections.abc import Sequence

# What a terminal without Unicode shows instead; all else becomes a question mark.
SUBSTITUTES = {"✘": "X", "✔": "+", "…": "...", "→": "->", "×": "x", "≈": "~", "µ": "u", "█": "#"}


def write_unencodable() -> None:
    """Let standard output and error write substitutes for what their encoding lacks."""
    codecs.register_error("insitu", _substitute)
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", "") == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="insitu")


def _substitute(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(SUBSTITUTES.get(character, "?") for character in text), error.end


def printable(text: str) -> str:
    """Write what a terminal would obey (control characters, direction marks) as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def list_some(names: Sequence[str], most: int, *, separator: str = ", ") -> str:
    """`a, b, c and 4 more`: the first `most` of the names."""
    rest = len(names) - most
    return separator.join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def describe_signal(number: int) -> str:
    """`signal 11 (SIGSEGV)`, and `signal 99` where there is no such signal."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def describe_end(status: int) -> str:
    """How a process ended, from its exit code or minus its signal: `exit code 3`."""
    return f"exit code {status}" if status >= 0 else describe_signal(-status)
