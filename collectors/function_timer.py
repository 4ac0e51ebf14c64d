"""Times functions and MPI calls per call path, with the hook of the native library."""

import sys
import time
from collections.abc import Callable

from insitu.collectors.rank import RankInfo
from insitu.collectors.steering import Steering

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any

# Of sys.monitoring. 0 to 2 and 5 are reserved for debuggers, coverage, profilers and optimizers.
TOOL_IDS = (4, 3)
CALIBRATION_CALLS = 500  # calls in a timed block
CALIBRATION_BLOCKS = 5  # the fastest block counts: the others were interrupted
# In a program, which fills the caches with its own data, an event of the hook costs this many times
# what it costs in a loop that does nothing else (measured with tests/benchmarks/overhead.py).
COLD_CACHE_FACTOR = 3.0


class NativeTimer:
    """The hook in libinsitu.so: it finds the row of a call path, reads the clock and adds.

    Raises:
        OSError: the table cannot be created.
    """

    wakes_agent = True  # at the end

    def __init__(self, native: "Any", path: str, info: RankInfo, program: str, meta: str) -> None:
        self.native = native
        self.region_enter = native.region_enter
        self.region_leave = native.region_leave
        self.phase = native.phase
        self.limit_iterations = native.limit_iterations
        native.open(path, info.rank, info.size, program, meta.encode(), *info.root)

    def start(
        self,
        prefixes: tuple[str, str, str],
        steering: Steering,
        uncaught: Callable[[BaseException], None],
    ) -> None:
        """Install the hook.

        It is the frame evaluator in Python 3.11 and callbacks of sys.monitoring from 3.12 on. If
        another tool uses these, the profile function is installed instead.

        Args:
            prefixes: of the files of libraries, of files of the program among these, and of insitu.
                Each text has one prefix per line.
            steering: which functions are recorded, at what cost.
            uncaught: called with an exception that leaves the main module.
        """
        native, wants_builtins = self.native, steering.has_builtins
        native.configure(
            *prefixes,
            "\n".join(steering.only),
            "\n".join(steering.skip),
            steering.depth,
            steering.keeps_recursion,
        )

        # The cost of an event is the difference between a call with and one without the hook.
        before_ns = _measure_call_ns()
        tool = _free_tool_id()
        if tool is not None:
            callbacks = native.start(uncaught, "monitoring", wants_builtins)
            _register_callbacks(tool, callbacks if wants_builtins else callbacks[:6])
        elif sys.version_info >= (3, 12) or wants_builtins or not self._start_evaluator(uncaught):
            self._start_profiler(uncaught, wants_builtins)
        event_ns = max(_measure_call_ns() - before_ns, 1.0)

        if tool is not None:  # from now on, functions that are not recorded cost nothing
            native.disable_with(sys.monitoring.DISABLE)  # type: ignore[attr-defined]
        native.budget(event_ns * COLD_CACHE_FACTOR, steering.budget)
        self._patch_extension_modules()

    def _start_evaluator(self, uncaught: Callable[[BaseException], None]) -> bool:
        try:
            self.native.start(uncaught, "evaluator", False)
        except RuntimeError:
            return False
        return True

    def _start_profiler(
        self, uncaught: Callable[[BaseException], None], wants_builtins: bool
    ) -> None:
        import threading

        from insitu.collectors.function_timer_py import call_when_uncaught

        call_when_uncaught(uncaught)
        threading.setprofile(self.native.profile_thread)
        self.native.start(lambda error: None, "profile", wants_builtins)

    def _patch_extension_modules(self) -> None:
        """Look for MPI calls in each extension module when it is loaded, before it can call MPI.

        Greenlets report when the calls of a thread become those of another greenlet.
        """
        loader = sys.modules["_frozen_importlib_external"].ExtensionFileLoader
        original = loader.create_module
        patch_mpi = self.native.patch_mpi
        switch_greenlet = self.native.switch_greenlet

        def create_module(self: object, spec: "Any") -> "Any":  # Any: what importlib has
            module = original(self, spec)
            patch_mpi()
            if spec.name == "greenlet._greenlet" and hasattr(module, "settrace"):
                switch_greenlet("import", (None, None))
                module.settrace(switch_greenlet)
            return module

        # Tracebacks omit the frames of importlib. This frame must look like one of them.
        create_module.__code__ = create_module.__code__.replace(
            co_filename="<frozen importlib._bootstrap_external>"
        )
        loader.create_module = create_module

    def end(self, status: int, is_aborted: bool = False) -> None:
        """Close the open frames and mark the table as ended, or as ended by MPI_Abort."""
        self.native.end(status, is_aborted)


def _free_tool_id() -> int | None:
    """An unused tool id of sys.monitoring; None if there is none, or no sys.monitoring."""
    if sys.version_info < (3, 12):
        return None
    monitoring = sys.monitoring  # 3.12 and later
    return next((tool for tool in TOOL_IDS if monitoring.get_tool(tool) is None), None)


def _register_callbacks(tool: int, callbacks: tuple[object, ...]) -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]  # 3.12 and later
    monitoring.use_tool_id(tool, "insitu")
    events = monitoring.events
    kinds = (
        events.PY_START,
        events.PY_RESUME,
        events.PY_THROW,
        events.PY_RETURN,
        events.PY_YIELD,
        events.PY_UNWIND,
        events.CALL,
        events.C_RETURN,
        events.C_RAISE,
    )

    mask = 0
    for event, callback in zip(kinds, callbacks, strict=False):
        monitoring.register_callback(tool, event, callback)
        if event not in (events.C_RETURN, events.C_RAISE):  # CALL enables these two
            mask |= event
    monitoring.set_events(tool, mask)


def _empty_function() -> None:
    """The function that is called to measure the time of a call."""


def _call_repeatedly(n: int) -> None:
    for _ in range(n):
        _empty_function()


def _measure_call_ns() -> float:
    """Nanoseconds for a call and its return, with the loop around them."""
    best_ns = 1 << 62
    for _ in range(CALIBRATION_BLOCKS):
        began_ns = time.perf_counter_ns()
        _call_repeatedly(CALIBRATION_CALLS)
        best_ns = min(best_ns, time.perf_counter_ns() - began_ns)
    return best_ns / CALIBRATION_CALLS
