"""Starts the measurement before the program's first line; sitecustomize imports this module.

It installs the collectors if this process is a rank of a measured run, and restores the
environment, so that children of the program are not measured.
"""

import os
import sys

# Offset of the u8 `subinterpreters` in the header of a table. `insitu` cannot be imported here;
# tests/collectors/test_table.py compares the number with table.h.
SUBINTERPRETERS_AT = 2192


def _remove_word(name: str, word: str) -> None:
    """Remove a word from a list that is separated by colons or blanks, as preload.c does."""
    text = os.environ.get(name, "")
    words = text.replace(" ", ":").split(":")
    if not word or word not in words:
        return

    rest, at = "", 0
    for entry in words:
        if entry != word:
            separator = text[at - 1] if rest else ""
            rest += separator + entry
        at += len(entry) + 1
    if rest:
        os.environ[name] = rest
    else:
        del os.environ[name]


def _python_folders() -> "list[str]":
    """PYTHONPATH without our folder. A job script may have changed it since `insitu run` set it."""
    here = os.path.dirname(os.path.abspath(__file__))
    entries = os.environ.get("PYTHONPATH", here).split(os.pathsep)
    return [entry for entry in entries if entry != here]


def _restore_environment() -> None:
    """Restore the variables as the user set them, and remove those of insitu."""
    folders = _python_folders()
    if folders:
        os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    else:
        os.environ.pop("PYTHONPATH", None)
    _remove_word("LD_PRELOAD", os.environ.get("INSITU_LIBRARY", ""))
    _remove_word("ASAN_OPTIONS", "verify_asan_link_order=0")  # see insitu/run/environment.py
    for name in os.environ.get("INSITU_VARIABLES", "").split():
        saved = os.environ.pop(f"INSITU_USER_{name}", None)
        if saved is not None:
            os.environ[name] = saved
        else:
            os.environ.pop(name, None)


def _forget_modules() -> None:
    """Remove our modules from sys.modules: the program may have a module `insitu` of its own.

    What they define lives on. A program that imports insitu loads it again.
    """
    for name in list(sys.modules):
        if name in ("insitu", "insitu_native") or name.startswith("insitu."):
            del sys.modules[name]


def _folders_of_program() -> "list[str]":
    """Where the program may have modules of its own, in front of the standard library."""
    folders = list(filter(None, _python_folders()))
    if not getattr(sys.flags, "safe_path", False):
        script = sys.argv[0] if sys.argv else ""  # "-c" or "-m" for the current folder
        folders.append(os.path.dirname(os.path.realpath(script)) if script[:1] != "-" else "")
    standard = os.path.dirname(os.path.abspath(os.__file__))
    return [path for path in map(os.path.abspath, folders) if not path.startswith(standard)]


def _forget_shadowed(folders: "list[str]", known: "set[str]") -> None:
    """Remove modules of the standard library that we imported and the program has of its own."""
    for name in set(sys.modules) - known:
        top = name.partition(".")[0]
        paths = [os.path.join(folder, top) for folder in folders]
        files = [path + end for path in paths for end in (".py", os.sep + "__init__.py")]
        if any(map(os.path.isfile, files)):
            del sys.modules[name]


class _LastFinder:
    """Finds the insitu that measures, if the program imports insitu and has none of its own.

    A bare checkout is not installed, so no other finder knows it.
    """

    def __init__(self, home: str) -> None:
        self._home = home

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return the import spec of `insitu`, None for all other modules."""
        if name != "insitu":
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [self._home])


def _measure() -> bool:
    """Install the collectors if this process is a rank.

    Returns:
        Whether the variables of the measurement have done their work. A process that is no rank,
        such as a wrapper, passes them on.
    """
    home = os.environ.get("INSITU_HOME", "")
    folders, known = _folders_of_program(), set(sys.modules)
    before = sys.path[:]
    sys.path[:] = [home, *(entry for entry in before if os.path.abspath(entry) not in folders)]
    try:
        from insitu.collectors import bootstrap
        from insitu.collectors.rank import RankInfo, find_rank, is_spawned

        info = find_rank(os.environ)
        if info is None and os.environ.get("INSITU_SINGLE"):
            info = RankInfo(0, 1)
        if info is None:
            return is_spawned(os.environ)  # nothing of it is measured
        bootstrap.start(info, before)
        return True
    finally:
        sys.path[:] = before
        _forget_modules()
        _forget_shadowed(folders, known)
        sys.meta_path.append(_LastFinder(home))  # type: ignore[arg-type]


def _count_subinterpreter() -> None:
    """Count this interpreter in the table of the process, if it is a subinterpreter of a rank.

    Nothing is measured in a subinterpreter. The table is among the files that the process has
    mapped.
    """
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            files = {line.rstrip("\n").partition("/")[2] for line in maps if ".table" in line}
        for name in files:
            file = os.open(f"/{name}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            if os.pread(file, 8, 0) == b"INSITUT1":
                count = int.from_bytes(os.pread(file, 8, SUBINTERPRETERS_AT), "little") + 1
                os.pwrite(file, count.to_bytes(8, "little"), SUBINTERPRETERS_AT)
            os.close(file)
    except OSError:
        pass


def _run() -> None:
    if "INSITU_RUN" not in os.environ:
        _count_subinterpreter()
        return
    try:
        if _measure():
            _restore_environment()
    except Exception as error:  # the program must run, measured or not
        _report(error)
        _restore_environment()


def _report(error: BaseException) -> None:
    """Write a line to a file that the launcher reads; the streams belong to the application."""
    path = os.environ.get("INSITU_TROUBLE", "")
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {error}\n")
    except OSError:
        pass


_run()
