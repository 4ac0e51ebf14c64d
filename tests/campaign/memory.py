"""The smallest implementation of a store, to test what every store must do."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Self

from insitu.campaign import records
from insitu.entities import Finding, RunKey, RunRecord
from insitu.errors import CampaignError
from insitu.modeling.base import ClassMeans, ModelSet
from insitu.modeling.measurement import RunTable


class MemoryStore:
    """A store in memory."""

    def __init__(self) -> None:
        """Start without runs."""
        self._runs: dict[str, tuple[RunRecord, RunTable]] = {}
        self._models = ModelSet()
        self._class_means = ClassMeans()
        self._modelled: frozenset[str] = frozenset()

    def add_run(self, run: RunRecord, table: RunTable) -> None:
        """See Store."""
        records.check_shapes(run, table)
        self._runs[run.id] = (run, table)

    def add_findings(self, run_id: str, findings: Sequence[Finding], *, without: str = "") -> None:
        """See Store."""
        table = self.table(run_id)
        run, _ = self._runs[run_id]
        self._runs[run_id] = (records.with_findings(run, findings, without), table)

    def set_parameters(self, run_id: str, parameters: Mapping[str, float]) -> None:
        """See Store."""
        table = self.table(run_id)
        run, _ = self._runs[run_id]
        key = RunKey.of(parameters, self.next_repetition(parameters))
        self._runs[run_id] = (replace(run, key=key), table)

    def next_repetition(self, parameters: Mapping[str, float]) -> int:
        """See Store."""
        wanted = RunKey.of(parameters).parameters
        keys = [run.key for run, _ in self._runs.values()]
        taken = [key.repetition for key in keys if key.parameters == wanted]
        return max(taken, default=-1) + 1

    def runs(self) -> list[RunRecord]:
        """See Store."""
        return [run for run, _ in self._runs.values()]

    def table(self, run_id: str) -> RunTable:
        """See Store."""
        if run_id not in self._runs:
            raise CampaignError(f"the campaign in memory has no run '{run_id}'")
        return self._runs[run_id][1]

    table_on_disk = table

    def table_bytes(self, run_id: str) -> int:
        """See Store."""
        return sum(array.nbytes for array in self.table(run_id).values.values())

    def tables_on_disk(self) -> dict[str, RunTable]:
        """See Store."""
        return {run_id: table for run_id, (_, table) in self._runs.items()}

    def contents(self) -> dict[str, str]:
        """See Store."""
        return {run_id: f"{id(table)}" for run_id, (_, table) in self._runs.items()}

    def put_models(
        self,
        models: ModelSet,
        *,
        of: Collection[str] | None = None,
        class_means: ClassMeans | None = None,
    ) -> None:
        """See Store."""
        self._models = models
        self._class_means = class_means or ClassMeans()
        self._modelled = frozenset(records.complete_ids(self.runs()) if of is None else of)

    def unmodelled_runs(self) -> list[str]:
        """See Store."""
        return [run for run in records.complete_ids(self.runs()) if run not in self._modelled]

    def models(self) -> ModelSet:
        """See Store."""
        return self._models

    def class_means(self, models: ModelSet) -> ClassMeans:
        """See Store."""
        return self._class_means

    def close(self) -> None:
        """See Store."""

    def __enter__(self) -> Self:
        """Nothing to open."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to close."""
