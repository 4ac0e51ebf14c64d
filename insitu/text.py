"""Words for what programs print and how they end."""

import signal
from collections.abc import Sequence


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
