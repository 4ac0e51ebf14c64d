"""Time and visits per call path through the native hook, MPI calls included."""

import sys
import time
from collections.abc import Callable

from insitu.collectors.rank import RankInfo
from insitu.collectors.steering import Steering

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any

# Of sys.monitoring; 0 to 2 and 5 belong to debuggers, coverage, profilers, optimizers.
TOOL_IDS = (4, 3)
CALLS = 500  # of a block that is timed
BLOCKS = 5  # of which the fastest counts: others were interrupted
# A program has its own data in the caches: there the hook takes that many times as long as in a
# loop that does nothing else (tests/benchmarks/overhead.py).
IN_A_PROGRAM = 3.0


class NativeTimer:
    """The collectors in libinsitu.so: they find the row, read the clock and add.

    Raises:
        OSError: the table cannot be made.
    """

    def __init__(self, native: "Any", path: str, info: RankInfo, program: str, meta: str) -> None:
        self.native = native
        self.region_enter = native.region_enter
        self.region_leave = native.region_leave
        self.phase = native.phase
        native.open(path, info.rank, info.size, program, meta.encode())

    def start(
        self,
        places: tuple[str, str, str],
        steering: Steering,
        uncaught: Callable[[BaseException], None],
    ) -> None:
        """Install the frame evaluator (3.11), the callbacks of sys.monitoring (3.12 and later) or,
        where another tool has these, the profile function.

        Args:
            places: prefixes of the files of libraries, of exceptions to them, of insitu itself.
            steering: which functions are recorded, at what cost.
            uncaught: called with the exception that leaves the main module.
        """
        native, wants_builtins = self.native, steering.has_builtins
        only, skip = "\n".join(steering.only), "\n".join(steering.skip)
        native.configure(*places, only, skip, steering.depth, steering.keeps_recursion)
        before_ns = _call_ns()
        tool = _free_tool()
        if tool is not None:
            callbacks = native.start(uncaught, "monitoring", wants_builtins)
            _monitor(tool, callbacks if wants_builtins else callbacks[:6])
        elif sys.version_info >= (3, 12) or wants_builtins or not self._evaluate(uncaught):
            self._profile(uncaught, wants_builtins)
        event_ns = max(_call_ns() - before_ns, 1.0)
        if tool is not None:  # from here on, what is ignored costs nothing
            native.disable_with(sys.monitoring.DISABLE)  # type: ignore[attr-defined]
        native.budget(event_ns * IN_A_PROGRAM, steering.budget)
        self._follow_extension_modules()

    def _evaluate(self, uncaught: Callable[[BaseException], None]) -> bool:
        try:
            self.native.start(uncaught, "evaluator", False)
        except RuntimeError:
            return False
        return True

    def _profile(self, uncaught: Callable[[BaseException], None], wants_builtins: bool) -> None:
        import threading

        from insitu.collectors.function_timer_py import tell_uncaught

        tell_uncaught(uncaught)
        threading.setprofile(self.native.profile_thread)
        self.native.start(lambda error: None, "profile", wants_builtins)

    def _follow_extension_modules(self) -> None:
        """Look for MPI calls in every extension module as soon as it is loaded, before it
        initialises MPI."""
        loader = sys.modules["_frozen_importlib_external"].ExtensionFileLoader
        original = loader.create_module
        patch_mpi = self.native.patch_mpi

        def create_module(self: object, spec: object) -> object:
            module = original(self, spec)
            patch_mpi()
            return module

        # Tracebacks leave out the frames of importlib: this one is part of it.
        create_module.__code__ = create_module.__code__.replace(
            co_filename="<frozen importlib._bootstrap_external>"
        )
        loader.create_module = create_module

    def end(self, status: int) -> None:
        """Close the open frames and mark the table as ended."""
        self.native.end(status)


def _free_tool() -> int | None:
    """An id for sys.monitoring, None where there is none."""
    if sys.version_info < (3, 12):
        return None
    monitoring = sys.monitoring  # 3.12 and later
    return next((tool for tool in TOOL_IDS if monitoring.get_tool(tool) is None), None)


def _monitor(tool: int, callbacks: tuple[object, ...]) -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]  # 3.12 and later
    monitoring.use_tool_id(tool, "insitu")
    events = monitoring.events
    kinds = (
        *(events.PY_START, events.PY_RESUME, events.PY_THROW),
        *(events.PY_RETURN, events.PY_YIELD, events.PY_UNWIND),
        *(events.CALL, events.C_RETURN, events.C_RAISE),
    )
    mask = 0
    for event, callback in zip(kinds, callbacks, strict=False):
        monitoring.register_callback(tool, event, callback)
        # C_RETURN and C_RAISE come with CALL
        mask |= 0 if event in (events.C_RETURN, events.C_RAISE) else event
    monitoring.set_events(tool, mask)


def _nothing() -> None:
    """What is called to see what a call takes."""


def _calls(n: int) -> None:
    for _ in range(n):
        _nothing()


def _call_ns() -> float:
    """Nanoseconds of a call and its return, the loop around it included."""
    best = 1 << 62
    for _ in range(BLOCKS):
        began = time.perf_counter_ns()
        _calls(CALLS)
        best = min(best, time.perf_counter_ns() - began)
    return best / CALLS
