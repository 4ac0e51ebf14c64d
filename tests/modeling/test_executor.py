"""Models made by others are those made here, to the last bit."""

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor

import numpy as np
import pytest

import insitu
from insitu.errors import ModelingError
from insitu.modeling.base import Model
from insitu.modeling.evidence.learn import CHUNK_SIZE

PREDICTED = 31  # every such model predicts: no divisor of the distances between gaps and changes


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2) as started:
        yield started


def describe(models: list[Model]) -> list[tuple[str, ...]]:
    """The functions of all models, and the predictions of some from every chunk."""
    far = [[1000.0] * len(models[0].parameters)]
    functions = [(repr(model.segments), repr(model.smape)) for model in models]
    predictions = [
        (repr(model.predict(far)), repr(model.interval(far))) for model in models[::PREDICTED]
    ]
    return functions + predictions


def test_one_parameter_with_repetitions_gaps_and_changes(pool):
    random = np.random.default_rng(1)
    x = 2.0 ** np.arange(2, 10)
    count = 2 * CHUNK_SIZE + 9  # the last chunk is smaller
    values = 1 + 10 ** random.uniform(-2, 3, (count, 1)) * x ** random.choice(
        [0, 0.5, 1], (count, 1)
    )
    values[::7, 4:] *= 3
    values = values[:, :, None] * random.normal(1, 0.02, (count, 8, 3))
    values[::5, 2] = np.nan

    assert describe(insitu.fit(x, values, executor=pool)) == describe(insitu.fit(x, values))


@pytest.mark.full
def test_two_parameters(pool):
    random = np.random.default_rng(2)
    at = (
        np.stack(np.meshgrid([2, 4, 8, 16], [10, 20, 40, 80]), axis=-1).reshape(-1, 2).astype(float)
    )
    values = 1 + 10 ** random.uniform(-1, 1, (300, 1)) * at[:, 0] ** 0.5 + 0.1 * at[:, 1] * at[:, 0]
    values = values * random.normal(1, 0.02, values.shape)
    values[::3] *= random.normal(1, 0.1, values[::3].shape)  # noisy ones are weighed again

    alone = insitu.fit(at, values, parameters=("p", "n"))

    assert describe(insitu.fit(at, values, parameters=("p", "n"), executor=pool)) == describe(alone)


def test_modeler_that_works_alone_says_so(pool):
    with pytest.raises(ModelingError, match="'search' does not take an executor"):
        insitu.fit([1, 2, 4, 8, 16], [[1, 2, 4, 8, 16]], modeler="search", executor=pool)
