"""What a compiled rank is for a moment before its main: makes the table, becomes the program again.

`native/preload.c` starts it in the rank's own process, with the path of the program and its
arguments.
"""

import os

from insitu.collectors import library, steering, table_directory
from insitu.collectors.bootstrap import start_agent
from insitu.collectors.rank import find


def main(argv: list[str]) -> None:
    """Execute the program `argv[0]` with the arguments `argv[1:]`; does not return."""
    environment = dict(os.environ)
    for name in [name for name in environment if name.startswith("INSITU_")]:
        del environment[name]
    before = os.environ.get("INSITU_LD_PRELOAD")  # the user's own
    try:
        environment["INSITU_ATTACH"] = _make_table(os.path.basename(argv[0]))
        environment["INSITU_HEAP"] = os.environ.get("INSITU_HEAP", "on")
        environment |= {"INSITU_LD_PRELOAD": before} if before else {}
    except (OSError, ImportError) as error:
        for name in ("INSITU_HEAP", "INSITU_ATTACH", "LD_PRELOAD"):
            environment.pop(name, None)
        environment |= {"LD_PRELOAD": before} if before else {}
        _report(error)
    os.execve(argv[0], argv[1:], environment)


def _make_table(program: str) -> str:
    info = find(os.environ)
    if info is None:
        raise OSError("the launcher says which rank this is, but not of how many")
    native = library.load(os.environ.get("INSITU_LIBRARY", ""))
    directory = table_directory.make_run_directory(os.environ["INSITU_RUN"])
    path = table_directory.table_path(directory, info.rank)
    try:
        native.open(path, info.rank, info.size, program, os.environ["INSITU_META"].encode())
    except OSError:
        table_directory.remove_if_empty(directory)
        raise
    native.budget(0.0, steering.read(os.environ.get(steering.VARIABLE, "")).budget)
    start_agent(directory, os.environ)
    return path


def _report(error: Exception) -> None:
    try:
        with open(os.environ["INSITU_TROUBLE"], "a", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {error}\n")
    except (OSError, KeyError):
        return  # nobody to tell
