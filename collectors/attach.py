"""Creates the table of a compiled rank, in the rank's own process, before its main.

`native/preload.c` replaces the program by Python with this module, which then executes the program
again.
"""

import os

from insitu.collectors import steering, table_directory
from insitu.collectors.bootstrap import start_agent
from insitu.collectors.rank import find_rank


def main(argv: list[str]) -> None:
    """Execute the program `argv[0]` with the arguments `argv[1:]`; does not return."""
    environment = dict(os.environ)
    for name in os.environ:
        if name.startswith("INSITU_"):
            del environment[name]

    user_preload = os.environ.get("INSITU_LD_PRELOAD")  # LD_PRELOAD as the user set it
    try:
        environment["INSITU_ATTACH"] = _create_table(os.path.basename(argv[0]))
        environment["INSITU_HEAP"] = os.environ.get("INSITU_HEAP", "on")
        if user_preload is not None:
            environment["INSITU_LD_PRELOAD"] = user_preload
    except (OSError, ImportError, AttributeError) as error:  # AttributeError: an older library
        # The program runs without measurement.
        for name in ("INSITU_HEAP", "INSITU_ATTACH", "LD_PRELOAD"):
            environment.pop(name, None)
        if user_preload is not None:
            environment["LD_PRELOAD"] = user_preload
        _report(error)

    os.execve(argv[0], argv[1:], environment)


def _create_table(program: str) -> str:
    """Create the table, start the agent, and return the path of the table."""
    info = find_rank(os.environ)
    if info is None:
        raise OSError("the launcher sets the number of this rank, but not the number of ranks")

    import ctypes  # works in every Python, as the native module does not

    native = ctypes.CDLL(os.environ["INSITU_LIBRARY"])
    directory = table_directory.make_run_directory(os.environ["INSITU_RUN"])
    path = table_directory.table_path(directory, info.rank)
    meta = os.environ["INSITU_META"].encode()
    settings = steering.parse_steering(os.environ.get(steering.VARIABLE, ""))
    failed = native.insitu_create_table(
        os.fsencode(path),
        info.rank,
        info.size,
        os.fsencode(program),
        meta,
        ctypes.c_size_t(len(meta)),
        ctypes.c_double(settings.budget),
    )
    if failed:
        table_directory.remove_if_empty(directory)
        raise OSError(failed, os.strerror(failed), path)

    start_agent(directory, os.environ)
    return path


def _report(error: Exception) -> None:
    try:
        with open(os.environ["INSITU_TROUBLE"], "a", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {error}\n")
    except (OSError, KeyError):
        return  # there is nowhere to report it
