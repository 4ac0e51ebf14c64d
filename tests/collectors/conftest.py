"""What the tests of the collectors share."""

import os

import pytest

from insitu.collectors import library
from tests.support.interpreters import VERSIONS, find_python, why_missing


@pytest.fixture(params=VERSIONS)
def python(request):
    """An interpreter of each supported version."""
    found = find_python(request.param)
    if not found:
        pytest.skip(why_missing(request.param))
    return found


@pytest.fixture
def shared():
    path = os.environ.get("INSITU_TEST_LIBRARY") or library.find()
    if not path:
        pytest.skip("the native library is not built: no C compiler")
    return path
