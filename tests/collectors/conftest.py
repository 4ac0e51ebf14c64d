"""What the tests of the collectors share."""

import os

import pytest

from insitu.collectors import library
from tests.support.interpreters import OWN_FIRST, find_python, why_missing
from tests.support.parameters import first_plain


@pytest.fixture(params=first_plain(OWN_FIRST))
def python(request):
    """This interpreter; with `--full` one of each supported version."""
    if "MUTANT_UNDER_TEST" in os.environ:
        pytest.skip("mutmut's functions would be measured; it follows no other process either")
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
