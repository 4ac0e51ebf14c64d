"""Load the complete runs of a campaign, with their values, as one experiment."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from insitu.campaign.base import Store
from insitu.campaign.program_names import application, begin_with, measures, usual_program
from insitu.campaign.selection import (
    core_count,
    has_precise_samples,
    is_oversubscribed,
    sample_rate,
    select_runs,
    thread_count,
    varying_parameters,
)
from insitu.entities import RunRecord
from insitu.modeling.crowding import find_delayed_runs, team_size
from insitu.modeling.measurement import Experiment, RunTable

TABLE_CACHE_BYTES = 1 << 29  # values that are in memory; those of other runs are read when used


class TableCache:
    """The values of complete runs, which never change: each is read once while there is room.

    The others stay in the file, and each use of some call paths reads those. `drop_others` makes
    room, so that an aggregator does not hold every run that it has ever received.
    """

    def __init__(self, store: Store, capacity_bytes: int = TABLE_CACHE_BYTES) -> None:
        """Create an empty cache in front of a store."""
        self._store = store
        self._free_bytes = capacity_bytes
        self._tables: dict[str, RunTable] = {}
        self._sizes: dict[str, int] = {}  # bytes

    def load(self, run_id: str) -> RunTable:
        """Return the values of a run, from memory if they are there.

        Raises:
            CampaignError: the values cannot be read.
        """
        if run_id in self._tables:
            return self._tables[run_id]

        size = self._store.table_bytes(run_id)
        if size > self._free_bytes:
            return self._store.table_on_disk(run_id)

        self._tables[run_id] = self._store.table(run_id)
        self._sizes[run_id] = size
        self._free_bytes -= size
        return self._tables[run_id]

    def drop_others(self, run_ids: Collection[str]) -> None:
        """Drop the values of all runs but these."""
        for run_id in self._tables.keys() - set(run_ids):
            del self._tables[run_id]
            self._free_bytes += self._sizes.pop(run_id)


def is_crowded(run: RunRecord, table: RunTable) -> bool:
    """Whether times of the run contain waiting for a core, so that they mean little."""
    return is_oversubscribed(run) or bool(find_delayed_runs([(run.key, table)]))


def with_usual_program(table: RunTable, run: RunRecord, program: str) -> RunTable:
    """The values of a run whose call paths begin with the name of the program for all runs."""
    name = application(run.configuration)
    if name in ("", program) or not measures(run, program):
        return table
    return replace(
        table,
        callpaths=tuple(begin_with(program, path, name) for path in table.callpaths),
        sites={begin_with(program, path, name): site for path, site in table.sites.items()},
    )


def load_usual_program(
    runs: Sequence[RunRecord], load: Callable[[str], RunTable]
) -> Callable[[str], RunTable]:
    """A function that loads the values of a run by its id, see `with_usual_program`.

    Args:
        runs: those that form one experiment; others are loaded as they are.
        load: loads the values as they are stored.
    """
    program, by_id = usual_program(runs), {run.id: run for run in runs}

    def load_renamed(run_id: str) -> RunTable:
        run = by_id.get(run_id)
        return load(run_id) if run is None else with_usual_program(load(run_id), run, program)

    return load_renamed


def load_experiment(
    store: Store,
    table: Callable[[str], RunTable] | None = None,
    runs: Sequence[RunRecord] | None = None,
) -> Experiment:
    """Read every rank's values of all runs that form one experiment.

    Args:
        store: the store of the campaign.
        table: returns the values of a run by its id; default: read them from the store.
        runs: those that `select_runs` selects; default: select them.

    Raises:
        CampaignError: a run cannot be read.
    """
    if runs is None:
        runs, _ = select_runs(store.runs())
    load_run = load_usual_program(runs, table or store.table)
    contents = _contents(store, runs)
    tables = tuple((run.key, load_run(run.id)) for run in runs)
    threads = {run.key: thread_count(run) for run in runs}
    crowded = {run.key: core_count(run) or 1 for run in runs if is_oversubscribed(run)}
    delayed = find_delayed_runs([(key, table) for key, table in tables if key not in crowded])

    # Threads that have no core use little CPU time, and do not look busy: their teams show them.
    for run, (key, values) in zip(runs, tables, strict=True):
        cores = core_count(run)
        if key in delayed and cores is not None:
            own = max(team_size(values), threads[key])
            if key.size * own > cores:
                del delayed[key]
                crowded[key], threads[key] = cores, own

    return Experiment(
        parameters=varying_parameters(runs),
        runs=tables,
        crowded=crowded,
        delayed=delayed,
        contents=contents,
        threads={key: count for key, count in threads.items() if count > 1},
        sampling_s={run.key: 1 / rate for run in runs if (rate := sample_rate(run))},
        precisely_sampled=frozenset(run.key for run in runs if has_precise_samples(run)),
    )


def _contents(store: Store, runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """The digest of the values of each run, with the name of the program if it replaces another."""
    stored, program = store.contents(), usual_program(runs)
    contents = []
    for run in runs:
        digest = stored[run.id]
        is_renamed = digest and application(run.configuration) not in ("", program)
        contents.append(f"{digest} {program}" if is_renamed else digest)
    return tuple(contents)
