"""Where `python -m insitu` looks for modules: not in the folder of the program.

Imports nothing but os and sys, which are loaded before.
"""

import os
import sys


def leave_current_folder() -> None:
    """Remove the current folder, which `python -m` puts in front, unless insitu itself is there.

    Its modules are those of the program: a `numpy.py` or `queue.py` there is not what insitu needs.
    """
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        current = os.getcwd()
    except OSError:  # it is gone
        return
    if not sys.flags.safe_path and sys.path[:1] == [current] and current != home:
        del sys.path[0]
