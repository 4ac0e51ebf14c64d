"""Which models are dirty, with the making of them anew."""

from collections.abc import Callable

from insitu.campaign.base import Store
from insitu.campaign.load import load_experiment
from insitu.entities import CallPath, RunState
from insitu.modeling.base import ModelSet
from insitu.modeling.pipeline import remodel


class Refits:
    """The call paths whose models are older than the runs in the store.

    `begin` and `finish` touch the store and belong to the thread that owns it; the work between
    them is pure and may be done anywhere.
    """

    def __init__(self, store: Store, *, is_behind: bool) -> None:
        """Begin with the models that the store has.

        Args:
            store: of the campaign.
            is_behind: the last writer was killed, perhaps between a run and its models.
        """
        self._store = store
        self.models = store.models()
        self._dirty: set[CallPath] = set()
        self.is_due = False
        if is_behind:
            for record in store.runs():
                if record.state is RunState.SEALED:
                    self.touch(record.id)

    def touch(self, run_id: str) -> None:
        """A run was sealed: the models of its call paths are to be made anew."""
        self._dirty.update(self._store.table(run_id).callpaths)
        self.is_due = True

    def begin(self) -> Callable[[], ModelSet]:
        """The work that is due, with all data it needs.

        Raises:
            CampaignError: a run cannot be read.
        """
        experiment = load_experiment(self._store)
        touched, self._dirty, self.is_due = frozenset(self._dirty), set(), False
        previous = self.models
        return lambda: remodel(experiment, previous=previous, touched=touched)

    def finish(self, models: ModelSet) -> None:
        """Keep the models.

        Raises:
            CampaignError: they cannot be written; the next refit makes them again.
        """
        self.models = models
        self._store.put_models(models)
