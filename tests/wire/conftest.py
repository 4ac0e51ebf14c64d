"""What all tests of this room share."""

import pytest

from insitu.wire import codec


@pytest.fixture(autouse=True)
def own_readers() -> None:
    """Each test makes the readers of messages anew: mutate.py selects a mutant behind their first
    use, while tests are collected."""
    codec._plan.cache_clear()
