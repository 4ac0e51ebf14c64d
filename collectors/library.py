"""The native library: where it is, whether this interpreter can use it, and how to load it."""

import os
import sys

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any

FILE = "libinsitu.so"
MODULE = "insitu_native"


def find() -> str:
    """Return the path of the library, or "" if it was not built.

    It is beside this file in a wheel and in a build in the source tree, and in site-packages in an
    editable install.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [here]
    folders += [os.path.join(entry, "insitu", "collectors") for entry in sys.path if entry]
    for folder in folders:
        path = os.path.join(folder, FILE)
        if os.path.isfile(path):
            return path
    return ""


def why_unusable() -> str:
    """Return why this interpreter's objects do not have the layout that the library expects.

    Empty if they do.
    """
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} is not CPython"
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        return f"Python {sys.version_info[0]}.{sys.version_info[1]} is newer than 3.13"
    if hasattr(sys, "gettotalrefcount"):
        return "a debug build of Python"
    if "t" in getattr(sys, "abiflags", ""):
        return "a free-threaded build of Python"
    return ""


def load(path: str) -> "Any":  # Any: a module written in C
    """Load the library as a module of this interpreter.

    Neither ctypes nor importlib is used: both would be loaded into the rank.

    Raises:
        ImportError: there is no library, or this interpreter cannot use it.
    """
    reason = why_unusable()
    if reason:
        raise ImportError(f"the native hook cannot be used: {reason}")
    if not path:
        raise ImportError("the native hook was not built: no C compiler at installation")

    import _imp

    class Spec:
        name = MODULE
        origin = path
        loader = None
        parent = ""

    return _imp.create_dynamic(Spec)  # type: ignore[arg-type]
