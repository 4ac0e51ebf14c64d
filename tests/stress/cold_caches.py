"""A pytest plugin for mutate.py: functions forget results from before a mutant was chosen.

mutmut forks each trial from a process that has run the tests without mutants.
"""

import functools
import gc


def pytest_sessionstart() -> None:
    """Clear the caches of all functions."""
    for value in gc.get_objects():
        if isinstance(value, functools._lru_cache_wrapper):
            value.cache_clear()
