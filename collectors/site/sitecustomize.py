"""Python imports this before the program's first line, because PYTHONPATH names its folder.

It takes itself out of the environment, so that children of the program are not measured, installs
the collectors if this process is a rank of a measured run, and hands over to the user's own
sitecustomize.
"""

import os
import sys

# Offset of the u8 `subinterpreters` in the header of a table. `insitu` cannot be imported here;
# tests/collectors/test_table.py compares the number with table.h.
SUBINTERPRETERS_AT = 2192


def _step_aside() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]


def _leave() -> None:
    """Undo what brought us here: PYTHONPATH, LD_PRELOAD and our own variables."""
    library = os.environ.get("INSITU_LIBRARY") or None
    for name in ("PYTHONPATH", "LD_PRELOAD"):
        original = os.environ.pop(f"INSITU_{name}", "")
        if original:
            os.environ[name] = original
        elif name == "PYTHONPATH" or os.environ.get(name) == library:
            os.environ.pop(name, None)
    for name in [name for name in os.environ if name.startswith("INSITU_")]:
        del os.environ[name]


def _measure() -> bool:
    """Whether this process is a rank of a measured run; then it has its collectors now."""
    home = os.environ.get("INSITU_HOME", "")
    sys.path.insert(0, home)
    try:
        from insitu.collectors import bootstrap
        from insitu.collectors.rank import RankInfo, find_rank

        info = RankInfo(0, 1) if os.environ.get("INSITU_SINGLE") else find_rank(os.environ)
        if info is None:
            return False
        bootstrap.start(info)
        return True
    finally:
        sys.path.remove(home)


def _tell_of_subinterpreter() -> None:
    """A measured program makes another interpreter, in which nothing of ours is: its table says so
    at the end. Its path is among the files that this process has mapped."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            files = {line.rstrip("\n").partition("/")[2] for line in maps if ".table" in line}
        for name in files:
            file = os.open(f"/{name}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            if os.pread(file, 8, 0) == b"INSITUT1":
                made = int.from_bytes(os.pread(file, 8, SUBINTERPRETERS_AT), "little") + 1
                os.pwrite(file, made.to_bytes(8, "little"), SUBINTERPRETERS_AT)
            os.close(file)
    except OSError:
        pass


def _run() -> None:
    _step_aside()
    if "INSITU_RUN" not in os.environ:
        _tell_of_subinterpreter()
        return
    try:
        if _measure():
            _leave()
    except Exception as error:  # the guest never fails its host
        _report(error)
        _leave()


def _report(error: BaseException) -> None:
    """Leave a line where the launcher finds it; the application's own streams stay the
    application's."""
    path = os.environ.get("INSITU_TROUBLE", "")
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {error}\n")
    except OSError:
        pass


_run()
_ours = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401  the user's own, which ours stood in front of
except ImportError as _error:
    if _error.name != "sitecustomize":
        raise
    sys.modules["sitecustomize"] = _ours  # the import system looks for what it has just made
