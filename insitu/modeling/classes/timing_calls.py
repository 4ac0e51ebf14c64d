"""MPI calls whose counts depend on timing: polls, and completions that polls share with waits."""

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from insitu.entities import CallPath

# A program polls as often as time allows. Which call completes a message depends on it as well.
POLLING_CALL = re.compile(
    r"P?MPI_(Test(all|any|some)?|Waitany|Waitsome|Iprobe|Improbe|Parrived"
    r"|Request_get_status(_all|_any|_some)?)\Z"
)
COMPLETION_CALL = re.compile(
    r"P?MPI_(Wait|Waitall|Waitany|Waitsome|Test(all|any|some)?|Request_get_status(_all|_any|_some)?)\Z"
)


def find_timing_paths(paths: Collection[CallPath]) -> set[CallPath]:
    """The call paths whose visits and completions are timing and not work.

    These are polling calls, and `MPI_Wait` and `MPI_Waitall` beside a polling call of the same
    caller.
    """
    polling = {path for path in paths if POLLING_CALL.match(path.name)}
    callers = {path.parent for path in polling if COMPLETION_CALL.match(path.name)}
    sharing = {
        path for path in paths if path.parent in callers and COMPLETION_CALL.match(path.name)
    }
    return polling | sharing


def group_completions(timing_paths: Collection[CallPath]) -> dict[CallPath, Sequence[CallPath]]:
    """The completion calls of each caller; what they complete together is work.

    Args:
        timing_paths: those that `find_timing_paths` returns.
    """
    by_caller: dict[CallPath, list[CallPath]] = defaultdict(list)
    for path in sorted(timing_paths):
        if path.parent is not None and COMPLETION_CALL.match(path.name):
            by_caller[path.parent].append(path)
    return dict(by_caller)
