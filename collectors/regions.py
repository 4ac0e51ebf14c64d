"""Marks that a program sets itself: `insitu.region("solve")` and `insitu.phase(step)`.

Outside a measured rank they do nothing and cost little more than the call.
"""

import sys
from collections.abc import Callable

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any, ParamSpec, Protocol, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

    class Recorder(Protocol):
        """The part of a function timer that records marks."""

        def region_enter(self, name: str) -> object:
            """Begin a region."""

        def region_leave(self, name: str) -> object:
            """End a region."""

        def phase(self, name: str, is_named: bool) -> bool:
            """Begin a named phase or an iteration; return whether the iterations suffice."""


# An attribute of sys: the module that the rank loaded before the program's first line is another
# one than the program imports.
ATTRIBUTE = "_insitu_recorder"
_recorder: "Recorder | None" = getattr(sys, ATTRIBUTE, None)


def record_with(recorder: "Recorder") -> None:
    """Send the marks of modules that are imported from now on to this timer."""
    setattr(sys, ATTRIBUTE, recorder)


class region:  # lower case, because it is read as a statement: with insitu.region("solve"):
    """A named region of the program, which is a call path of its own.

    Use it as a context manager or as a decorator. In a coroutine, the region ends for the timer
    where the coroutine first waits.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if callable(name):
            raise TypeError('a region needs a name, as in @insitu.region("solve")')
        self.name = sys.intern(str(name))

    def __enter__(self) -> "region":
        if _recorder is not None:
            _recorder.region_enter(self.name)
        return self

    def __exit__(self, *error: object) -> None:
        if _recorder is not None:
            _recorder.region_leave(self.name)

    def __call__(self, function: "Callable[P, R]") -> "Callable[P, R]":
        """Return a function that runs `function` in this region."""
        if _recorder is None:
            return function

        from functools import wraps

        @wraps(function)
        def within(*args: "P.args", **kwargs: "P.kwargs") -> "R":
            with self:
                return function(*args, **kwargs)

        return within


def phase(step: "Any") -> bool:  # Any: anything with a text, usually a number
    """Begin a phase of the program: a named phase, or an iteration of its main loop.

    A string is a name. Until the next named phase, the call path `(phase assemble)` below the
    program holds what the whole rank does, including its memory. Anything else is the number of an
    iteration: the time between two such marks is one value of the metric `iteration_time`.

    Returns:
        True where the iterations made so far are all that the user wants to measure
        (`insitu run --iterations 5`): `if insitu.phase(step): break`. All ranks that mark the same
        iterations get the same answer. Outside a measured rank it is always False.
    """
    return _recorder is not None and _recorder.phase(str(step), isinstance(step, str))
