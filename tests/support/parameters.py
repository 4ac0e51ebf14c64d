"""Parameters of which the plain suite tries the first, and examples; the others need `--full`."""

from collections.abc import Iterable, Sequence

import hypothesis
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


def examples(number: int, **options: object) -> hypothesis.settings:
    """So many examples of hypothesis with `--full`, and the first quarter of them in the plain
    suite, which draws the same ones every time."""
    is_plain = hypothesis.settings.default.derandomize
    return hypothesis.settings(max_examples=number // 4 if is_plain else number, **options)
