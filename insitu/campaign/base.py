"""What a store of campaigns can do, whatever it is made of."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, Self

from insitu.entities import Finding, RunRecord
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import RunTable


class Store(Protocol):
    """Sealed runs are the truth; classes and models are derived and may be deleted at any time.

    One thread at a time uses a store. One process writes, others may read meanwhile.
    """

    def add_run(self, run: RunRecord, table: RunTable) -> None:
        """Keep a run with every rank's values; durable when this returns.

        A run with the same id replaces the one kept before (a partial run that was completed) and
        keeps its place in the order.

        Raises:
            CampaignError: the run could not be kept, and what is there is as it was before: disk
                full, locked, read-only.
        """

    def add_findings(self, run_id: str, findings: Sequence[Finding], *, without: str = "") -> None:
        """Add what was found of a run that is kept, without what it says already.

        Args:
            run_id: of the run.
            findings: that are added.
            without: the code of findings that are taken away before.

        Raises:
            CampaignError: there is no such run, or it could not be written.
        """

    def next_repetition(self, parameters: Mapping[str, float]) -> int:
        """The number of the next repetition at these parameter values."""

    def runs(self) -> list[RunRecord]:
        """All runs in the order in which they were first sealed."""

    def table(self, run_id: str) -> RunTable:
        """The values of one run, as they were sealed.

        Raises:
            CampaignError: there is no such run, or its values are damaged.
        """

    def put_models(self, models: ModelSet, *, of: Collection[str] | None = None) -> None:
        """Let `models` be all models, classes and findings of modeling that are kept.

        They were made when the runs `of` these ids were sealed; None: those that are sealed now.
        """

    def unmodelled(self) -> list[str]:
        """The ids of sealed runs that were not there yet when the models were made."""

    def models(self) -> ModelSet:
        """The models, classes and findings kept last; none before the first `put_models`."""

    def close(self) -> None:
        """Let go of the files; nothing else may be called afterwards."""

    def __enter__(self) -> Self:
        """Close the store at the end of the block."""

    def __exit__(self, *error: object) -> None:
        """Close the store."""
