"""Python imports this module before the program's first line: PYTHONPATH contains its folder.

`start_in_rank` does the work. This module also runs in interpreters that are too old for insitu,
such as helpers of a wrapper script, so its syntax is that of Python 2, and it prints nothing there.
It ends by importing the user's own sitecustomize, which it hides.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
if sys.version_info >= (3, 6):  # noqa: UP036
    sys.path.insert(0, _here)
    import start_in_rank  # noqa: F401

    del sys.modules["start_in_rank"]

sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _here]
_this_module = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401
except ImportError as _error:
    if str(_error).replace("'", "") != "No module named sitecustomize":
        raise
    sys.modules["sitecustomize"] = _this_module  # the import system expects it there
