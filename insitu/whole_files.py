"""Output files that are complete or as they were before, also where the disk is full."""

import os
from collections.abc import Callable
from typing import BinaryIO


def write_whole_file(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Write to a file beside `path` that then takes its place; a device or a pipe is written to.

    Args:
        path: the file.
        write: writes the content.

    Raises:
        OSError: the file cannot be written. A file that was there before is unchanged.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as device:
            write(device)
        return

    unfinished = f"{path}.part"
    try:
        with open(unfinished, "wb") as file:
            write(file)
        os.replace(unfinished, path)
    except BaseException:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise
