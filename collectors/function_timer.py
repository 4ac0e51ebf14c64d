"""Time and visits per call path through the native hook, MPI calls included."""

import sys
from collections.abc import Callable

from insitu.collectors.rank import RankInfo

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any

# Of sys.monitoring; 0 to 2 and 5 belong to debuggers, coverage, profilers, optimizers.
TOOL_IDS = (4, 3)


class NativeTimer:
    """The collectors in libinsitu.so: they find the row, read the clock and add.

    Raises:
        OSError: the table cannot be made.
    """

    def __init__(self, native: "Any", path: str, info: RankInfo, program: str, meta: str) -> None:
        self.native = native
        native.open(path, info.rank, info.size, program, meta.encode())

    def start(self, library: str, user: str, uncaught: Callable[[BaseException], None]) -> None:
        """Install the frame evaluator (3.11) or the callbacks of sys.monitoring (3.12 and
        later)."""
        is_evaluator = sys.version_info < (3, 12)
        callbacks = self.native.start(library, user, uncaught, is_evaluator)
        if not is_evaluator:
            self._monitor(callbacks)
        self._follow_extension_modules()

    def _monitor(self, callbacks: tuple[object, ...]) -> None:
        monitoring = sys.monitoring  # type: ignore[attr-defined]  # 3.12 and later
        tool = next((t for t in TOOL_IDS if monitoring.get_tool(t) is None), None)
        if tool is None:
            return
        monitoring.use_tool_id(tool, "insitu")
        events = monitoring.events
        kinds = (
            events.PY_START,
            events.PY_RESUME,
            events.PY_THROW,
            events.PY_RETURN,
            events.PY_YIELD,
            events.PY_UNWIND,
        )
        mask = 0
        for event, callback in zip(kinds, callbacks, strict=True):
            monitoring.register_callback(tool, event, callback)
            mask |= event
        monitoring.set_events(tool, mask)

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
