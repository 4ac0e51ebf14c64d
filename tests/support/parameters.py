"""Parameters of which the plain suite tries the first; the others need `--full`."""

from collections.abc import Iterable, Sequence

import pytest


def first_plain(values: Iterable[object], plain: int = 1) -> list[object]:
    """The values of a fixture; all but the first ones are marked `full`."""
    return [
        value if index < plain else pytest.param(value, marks=pytest.mark.full)
        for index, value in enumerate(values)
    ]


def plain_and_full(
    names: str | Sequence[str], values: Iterable[object], *, plain: int = 1, **options: object
) -> pytest.MarkDecorator:
    """As `pytest.mark.parametrize`; all values but the first ones are marked `full`.

    Args:
        names: one name, or a sequence of names whose values are sequences.
        values: in the order in which they are worth their time.
        plain: number of values in the plain suite.
        options: of `pytest.mark.parametrize`.
    """
    if isinstance(names, str):
        return pytest.mark.parametrize(names, first_plain(values, plain), **options)

    parameters = []
    for index, value in enumerate(values):
        marks = [pytest.mark.full] if index >= plain else []
        parameters.append(pytest.param(*value, marks=marks))
    return pytest.mark.parametrize(names, parameters, **options)
