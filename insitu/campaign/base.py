"""What a store of campaigns can do, whatever it is made of."""

from collections.abc import Iterable
from typing import Protocol

from insitu.entities import RunRecord
from insitu.measurement import RunTable
from insitu.modeling.base import ModelSet


class Store(Protocol):
    """Sealed runs are the truth; classes and models are derived and may be deleted at any time."""

    def seal(self, run: RunRecord, table: RunTable) -> None:
        """Keep a run with every rank's values; durable when this returns.

        A run with the same id replaces the one kept before (a partial run that was completed).
        """

    def next_repetition(self, parameters: dict[str, float]) -> int:
        """The number of the next repetition at these parameter values."""

    def runs(self) -> list[RunRecord]:
        """All runs in the order in which they were first sealed."""

    def table(self, run_id: str) -> RunTable:
        """The values of one run."""

    def put_models(self, models: ModelSet, *, drop: Iterable[str] = ()) -> None:
        """Replace the models and classes of the series in `models`, and all findings of modeling."""

    def models(self) -> ModelSet:
        """The models, classes and findings kept last."""
