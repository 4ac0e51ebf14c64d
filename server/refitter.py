"""Which models are older than the runs in the store, and the work of fitting them again."""

from collections.abc import Callable, Mapping, Sequence

from insitu.campaign.base import Store
from insitu.campaign.load import TableCache, is_crowded, load_usual_program
from insitu.campaign.selection import select_runs
from insitu.campaign.stored_values import release_connections
from insitu.entities import Finding, RunKey, RunRecord
from insitu.modeling.base import ClassMeans, ModelSet
from insitu.modeling.measurement import RunTable


class Refitter:
    """Tracks the runs and call paths that the current models do not include.

    `begin`, `preview` and `finish` touch the store and must be called by the thread that owns it.
    The functions that `begin` and `preview` return are pure and may run in any thread.
    """

    def __init__(self, store: Store, campaign: str) -> None:
        """Start with the models in the store and the runs that they do not include.

        Args:
            store: the store of the campaign.
            campaign: the campaign's directory, which may contain campaign.toml.
        """
        self._store = store
        self._campaign = campaign
        self._tables = TableCache(store)

        self.models = store.models()
        self.shown = self.models  # what boards show: the models, or a preview of the next ones
        self._class_means = store.class_means(self.models)

        unmodelled = store.unmodelled_runs()
        self._modelled_runs = {run.id for run in store.runs()} - set(unmodelled)
        self._pending_runs: set[str] = set()
        self._runs_in_work: set[str] = set()
        self._evidence: frozenset[str] = frozenset()  # runs whose values may be needed again
        self._new_tables: list[tuple[RunKey, RunTable]] = []  # of the runs in work
        self._deviations: dict[str, tuple[Finding, ...]] = {}  # by run in work

        self._pending_runs.update(unmodelled)

    @property
    def is_due(self) -> bool:
        """Whether some run is neither in the models nor in the refit that has begun."""
        return bool(self._pending_runs)

    def add_run(self, run_id: str) -> None:
        """Include a run, which is now in the store, in the next refit."""
        self._pending_runs.add(run_id)

    def begin(self) -> Callable[[], tuple[ModelSet, ClassMeans]]:
        """Take everything that is pending and return the function that fits it.

        Raises:
            CampaignError, UsageError: a run, campaign.toml or dependencies.json cannot be read.
        """
        # Loading the modelers takes 0.4 s of CPU time. Until a run is complete, its ranks need it.
        from insitu.server.refit import fit_models, load_refit_inputs

        inputs = load_refit_inputs(
            self._store,
            self._campaign,
            load_table=self._tables.load,
            previous=self._class_means,
        )
        self._runs_in_work, self._pending_runs = self._pending_runs, set()
        self._evidence = inputs.evidence

        previous = self.models
        new_runs = [run for run in self._store.runs() if run.id in self._runs_in_work]
        selected, _ = select_runs(self._store.runs())
        load = load_usual_program(selected, self._tables.load)
        tables = {run.id: load(run.id) for run in new_runs}
        modelled = {key for key, _ in inputs.experiment.runs}
        self._new_tables = []
        if previous.parameters == inputs.experiment.parameters:
            for run in new_runs:
                if run.key in modelled:
                    self._new_tables.append((run.key, tables[run.id]))

        # A run that is left out measured something else than the models describe.
        used = {run.id for run in selected}
        comparable = [run for run in new_runs if run.id in used]
        find_deviations = self._compare_with_forecast(comparable, tables)

        def fit() -> tuple[ModelSet, ClassMeans]:
            find_deviations()
            return fit_models(inputs)

        return fit

    def _compare_with_forecast(
        self, runs: Sequence[RunRecord], tables: Mapping[str, RunTable]
    ) -> Callable[[], None]:
        """Return the function that compares the runs in work with the models before them."""
        models, deviations_by_run = self.models, self._deviations
        deviations_by_run.clear()

        def compare() -> None:
            if not models.models:
                return

            from insitu.analysis.deviation import find_deviations_from_models

            for run in runs:
                deviations_by_run[run.id] = find_deviations_from_models(
                    models, tables[run.id], run.key, is_crowded=is_crowded(run, tables[run.id])
                )

        return compare

    def preview(self) -> Callable[[], ModelSet]:
        """Return the function that estimates the new models quickly, to be shown until they exist.

        Where several runs are new at once, it returns the models unchanged.
        """
        models, new_tables = self.models, self._new_tables

        def estimate() -> ModelSet:
            if len(new_tables) != 1:
                return models

            from insitu.modeling.preview import preview_models

            return preview_models(models, *new_tables[0])

        return estimate

    def finish(self, fitted: tuple[ModelSet, ClassMeans]) -> list[Finding]:
        """Store the models, store the deviations with their runs, and return the deviations.

        Args:
            fitted: what the function that `begin` returned has returned.

        Raises:
            CampaignError: they cannot be written; the next refit computes them again.
        """
        models, self._class_means = fitted
        self.models = self.shown = models
        self._modelled_runs |= self._runs_in_work

        findings: list[Finding] = []
        for run_id, deviations in self._deviations.items():
            if deviations:
                self._store.add_findings(run_id, deviations)
                findings += deviations

        release_connections()
        self._tables.drop_others(self._evidence)
        self._new_tables = []
        self._store.put_models(models, of=self._modelled_runs, class_means=self._class_means)
        return findings
