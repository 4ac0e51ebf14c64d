"""The interface of a campaign's store."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, Self

from insitu.entities import CallPath, Finding, RunRecord
from insitu.modeling.base import ClassMeans, ModelSet
from insitu.modeling.measurement import RunTable


class Store(Protocol):
    """Runs with their values, and the models and behaviour classes derived from them.

    The runs are the data; classes and models can be deleted and computed again at any time. One
    thread at a time uses a store. One process writes; others may read at the same time.
    """

    def add_run(self, run: RunRecord, table: RunTable) -> None:
        """Store a run with every rank's values; it is durable when this returns.

        A run replaces the stored run with the same id (an incomplete run that was completed) and
        keeps its position in the order of runs.

        Raises:
            CampaignError: the run could not be stored, because the disk is full, locked or
                read-only; the store is unchanged.
        """

    def set_parameters(self, run_id: str, parameters: Mapping[str, float]) -> None:
        """Replace the parameters of a stored run; it becomes the next repetition there.

        Args:
            run_id: the id of the run.
            parameters: all of them.

        Raises:
            CampaignError: there is no such run, or it could not be written.
        """

    def add_findings(self, run_id: str, findings: Sequence[Finding], *, without: str = "") -> None:
        """Add findings to a stored run; those that it already has are not repeated.

        Args:
            run_id: the id of the run.
            findings: the findings to add.
            without: remove the findings with this code first.

        Raises:
            CampaignError: there is no such run, or it could not be written.
        """

    def next_repetition(self, parameters: Mapping[str, float]) -> int:
        """The number of the next repetition at these parameter values."""

    def runs(self) -> list[RunRecord]:
        """All runs, in the order in which they were first stored."""

    def table(self, run_id: str) -> RunTable:
        """The values of a run, as they were stored.

        Raises:
            CampaignError: there is no such run, or its values are damaged.
        """

    def table_on_disk(self, run_id: str) -> RunTable:
        """The values of a run, which take no memory: rows are read when they are selected.

        Reading rows fails as `table` does if values are damaged.

        Raises:
            CampaignError: there is no such run.
        """

    def tables_on_disk(self) -> Mapping[str, RunTable]:
        """The tables of `table_on_disk` of all runs, by id."""

    def contents(self) -> Mapping[str, str]:
        """A digest of the values of each run by its id; "" if it is not known."""

    def table_bytes(self, run_id: str) -> int:
        """The memory that the values of a run take."""

    def sites(self) -> Mapping[CallPath, tuple[str, int]]:
        """Where the functions at the end of call paths are defined: file and line, if known."""

    def put_models(
        self,
        models: ModelSet,
        *,
        of: Collection[str] | None = None,
        class_means: ClassMeans | None = None,
    ) -> None:
        """Replace all models, classes, class means and findings of modeling.

        Args:
            models: the new ones.
            of: the ids of the runs that the models include; None: all runs that are complete now.
            class_means: what the next refit can use, if anything.
        """

    def unmodelled_runs(self) -> list[str]:
        """The ids of the complete runs that the models do not include."""

    def models(self) -> ModelSet:
        """The models, classes and findings stored last; empty before the first `put_models`."""

    def class_means(self, models: ModelSet) -> ClassMeans:
        """The class means stored last; empty if there are none that belong to these models.

        Args:
            models: from `models`.
        """

    def close(self) -> None:
        """Close the files; no other method may be called afterwards."""

    def __enter__(self) -> Self:
        """Return the store itself."""

    def __exit__(self, *error: object) -> None:
        """Close the store."""
