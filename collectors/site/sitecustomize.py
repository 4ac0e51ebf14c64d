"""Python imports this module before the program's first line: PYTHONPATH contains its folder.

`start_in_rank` does the work. This module also runs in interpreters that are too old for insitu,
such as helpers of a wrapper script, so its syntax is that of Python 2, and it prints nothing there.
It ends by importing the user's own sitecustomize, which it hides. If there is none, the program
finds no module of this name.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
if sys.version_info >= (3, 6):  # noqa: UP036
    sys.path.insert(0, _here)
    import start_in_rank  # noqa: F401

    del sys.modules["start_in_rank"]

sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _here]
del sys.modules["sitecustomize"]
# If there is none, `site` ignores the error, as it does without us.
import sitecustomize  # noqa: E402, F401
