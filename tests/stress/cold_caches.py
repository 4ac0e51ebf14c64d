"""A pytest plugin for mutate.py: functions forget results from before a mutant was chosen.

mutmut forks each trial from a process that has run the tests without mutants. That process has
frozen its objects (tests/conftest.py), which hides them from a list of all.
"""

import functools
import gc


def pytest_sessionstart() -> None:
    """Clear the caches of all functions."""
    gc.unfreeze()
    for value in gc.get_objects():
        if isinstance(value, functools._lru_cache_wrapper):
            value.cache_clear()
