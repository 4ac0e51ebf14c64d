"""The native library: where it is, whether this interpreter can use it, and how to load it."""

import os
import sys

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from typing import Any

FILE = "libinsitu.so"
MODULE = "insitu_native"

# Pythons for which tests/collectors have compared the layouts and opcodes in native/python_abi.h.
OLDEST, NEWEST = (3, 11), (3, 15)


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
    """Return why the native hook cannot be used in this interpreter; empty if it can.

    The hook depends on the layout of Python's objects. Compiled programs are measured without it.
    """
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} is not CPython"
    version = sys.version_info[:2]
    if not OLDEST <= version <= NEWEST:
        relation = "newer than {}.{}".format(*NEWEST)
        if version < OLDEST:
            relation = "older than {}.{}".format(*OLDEST)
        return "Python {}.{} is {}".format(*version, relation)
    if hasattr(sys, "gettotalrefcount"):
        return "a debug build of Python"
    if is_free_threaded():
        return "a free-threaded build of Python"
    return ""


def is_free_threaded() -> bool:
    """Whether this is a build of Python without a global interpreter lock.

    The build decides about the layout of objects. `PYTHON_GIL=1` changes nothing about it.
    """
    return "t" in getattr(sys, "abiflags", "")


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
