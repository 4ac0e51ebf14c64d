"""The program's own marks: `insitu.region("solve")`, `insitu.phase(step)`.

Outside a measured rank they do nothing, and cost little more than the call.
"""

import sys
from collections.abc import Callable

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any, ParamSpec, Protocol, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

    class Recorder(Protocol):
        """A function timer."""

        def region_enter(self, name: str) -> object:
            """A region begins."""

        def region_leave(self, name: str) -> object:
            """It ends."""

        def phase(self, name: str, is_named: bool) -> object:
            """A part of the program begins, or one iteration of it."""


_recorder: "Recorder | None" = None  # set once, before the program's first line


def record_with(recorder: "Recorder") -> None:
    """From here on marks go to this timer."""
    global _recorder  # noqa: PLW0603  the program has no object of ours to hold it
    _recorder = recorder


class region:  # read as a statement: with insitu.region("solve"):
    """A part of the program with a name, a row of the call path; for `with` and as a decorator.

    Within a coroutine it ends, for the timer, where the coroutine first waits.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = sys.intern(str(name))

    def __enter__(self) -> "region":
        if _recorder is not None:
            _recorder.region_enter(self.name)
        return self

    def __exit__(self, *error: object) -> None:
        if _recorder is not None:
            _recorder.region_leave(self.name)

    def __call__(self, function: "Callable[P, R]") -> "Callable[P, R]":
        """The function, run within the region."""
        if _recorder is None:
            return function
        from functools import wraps

        @wraps(function)
        def within(*args: "P.args", **kwargs: "P.kwargs") -> "R":
            with self:
                return function(*args, **kwargs)

        return within


def phase(step: "Any") -> None:  # Any: whatever has a text, mostly a number
    """A phase of the program begins: an iteration of its main loop, or a part of it with a name.

    A text is a name: until the next phase with one, `(phase assemble)` below the program tells
    what the whole rank does, its memory included. Anything else is the number of an iteration: the
    time from each to the next is an iteration's (`iteration_time`).
    """
    if _recorder is not None:
        _recorder.phase(str(step), isinstance(step, str))
