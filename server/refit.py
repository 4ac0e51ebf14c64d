"""Which models are dirty, with the making of them anew."""

from collections.abc import Callable

from insitu.campaign.base import Store
from insitu.campaign.config import dependencies_file, load_config
from insitu.campaign.load import load_experiment
from insitu.design.dependency_file import told_products
from insitu.entities import CallPath, Finding, RunKey
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import RunTable

TABLES_BYTES = 1 << 30  # of sealed runs that stay in memory between refits


class Tables:
    """The values of sealed runs, which never change: read once, as far as there is room."""

    def __init__(self, store: Store, room_bytes: int = TABLES_BYTES) -> None:
        """Begin with none."""
        self._store = store
        self._room_bytes = room_bytes
        self._held: dict[str, RunTable] = {}

    def table(self, run_id: str) -> RunTable:
        """The values of a run.

        Raises:
            CampaignError: they cannot be read.
        """
        held = self._held.get(run_id)
        if held is None:
            held = self._store.table(run_id)
            size = sum(array.nbytes for array in held.values.values())
            if size <= self._room_bytes:
                self._room_bytes -= size
                self._held[run_id] = held
        return held


class Refits:
    """The call paths whose models are older than the runs in the store.

    `begin` and `finish` touch the store and belong to the thread that owns it; the work between
    them is pure and may be done anywhere.
    """

    def __init__(self, store: Store, campaign: str) -> None:
        """Begin with the models that the store has, and the runs that they do not know.

        Args:
            store: of the campaign.
            campaign: its directory, in which campaign.toml may lie.
        """
        self._store = store
        self._campaign = campaign
        self._tables = Tables(store)
        self.models = self.shown = store.models()  # what is true, and what is shown until it is
        self._arrived: list[tuple[RunKey, RunTable]] = []
        self._dirty: set[CallPath] = set()
        self._unmodelled: set[str] = set()
        self._modelled = {run.id for run in store.runs()} - set(store.unmodelled())
        self._begun: set[str] = set()
        self._off: dict[str, tuple[Finding, ...]] = {}  # what runs that have begun had odd
        for run_id in store.unmodelled():
            self.touch(run_id)

    @property
    def is_due(self) -> bool:
        """Whether a run is not in the models, nor in the work that has begun."""
        return bool(self._unmodelled)

    def touch(self, run_id: str) -> None:
        """A run was sealed: the models of its call paths are to be made anew."""
        self._dirty.update(self._tables.table(run_id).callpaths)
        self._unmodelled.add(run_id)

    def begin(self) -> Callable[[], ModelSet]:
        """The work that is due, with all data it needs.

        Raises:
            CampaignError, UsageError: a run, campaign.toml or dependencies.json cannot be read.
        """
        said = load_config(self._campaign).classes
        experiment = load_experiment(self._store, self._tables.table)
        file = dependencies_file(self._campaign)
        told = told_products(file, experiment.callpaths(), experiment.parameters)
        touched, self._dirty = frozenset(self._dirty), set()
        self._begun, self._unmodelled = self._unmodelled, set()
        previous = self.models
        keys = {run.key for run in self._store.runs() if run.id in self._begun}
        knows = previous.parameters == experiment.parameters
        self._arrived = [run for run in experiment.runs if knows and run[0] in keys]
        judge = self._judge()

        def work() -> ModelSet:
            from insitu.modeling.pipeline import remodel  # with scipy: not before there is a run

            judge()
            return remodel(
                experiment,
                previous=previous,
                touched=touched,
                classes=said.way,
                threshold=said.threshold,
                rules=said.rules,
                dependencies=told,
            )

        return work

    def _judge(self) -> Callable[[], None]:
        """The work of comparing the runs that have begun with the models of those before them."""
        ids, models, off = self._begun, self.models, self._off
        runs = [(run.id, run.key) for run in self._store.runs() if run.id in ids]
        tables = {run_id: self._tables.table(run_id) for run_id, _ in runs}
        off.clear()

        def work() -> None:
            if not models.models:
                return
            from insitu.analysis.deviation import deviations
            from insitu.analysis.forecast import forecast

            for run_id, key in runs:
                off[run_id] = deviations(forecast(models, key), tables[run_id], key)

        return work

    def preview(self) -> Callable[[], ModelSet]:
        """The work of saying what is about true until the work that has begun is done.

        Only where one run is new: several at once wait for the models themselves.
        """
        models, arrived = self.models, self._arrived

        def work() -> ModelSet:
            if len(arrived) != 1:
                return models
            from insitu.modeling.preview import previewed

            return previewed(models, *arrived[0])

        return work

    def finish(self, models: ModelSet) -> list[Finding]:
        """Keep the models, and with their runs what these had odd, which is answered.

        Raises:
            CampaignError: they cannot be written; the next refit makes them again.
        """
        self.models = self.shown = models
        self._modelled |= self._begun
        off = {run_id: found for run_id, found in self._off.items() if found}
        for run_id, found in off.items():
            self._store.note(run_id, found)
        self._store.put_models(models, of=self._modelled)
        return [finding for found in off.values() for finding in found]
