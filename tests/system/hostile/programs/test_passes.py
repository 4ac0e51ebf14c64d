"""A test file for pytest with warnings as errors."""


def test_addition():
    assert 1 + 1 == 2
