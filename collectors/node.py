"""The ranks of one run on one node: reads their tables and builds the messages about them."""

import json
import os
import shutil
import time
from array import array
from collections.abc import Mapping
from typing import Any

from insitu.collectors import elision, heap, spool, table_directory
from insitu.collectors.collectives import describe_spanning_calls
from insitu.collectors.cores import usable_cores
from insitu.collectors.cpp_names import called_function
from insitu.collectors.delay_reports import describe_delays
from insitu.collectors.devices import device_gauges
from insitu.collectors.energy import EnergyMeter
from insitu.collectors.event_values import EventValues, read_event_values
from insitu.collectors.file_sets import describe_opened
from insitu.collectors.iterations import describe_limit, iteration_gauges, sample_iterations
from insitu.collectors.node_messages import describe_unnumbered
from insitu.collectors.partners import communicator_gauges, partner_gauges
from insitu.collectors.phases import phase_gauges
from insitu.collectors.programs import (
    describe_superseded,
    find_superseded,
    is_provisional,
    update_state,
)
from insitu.collectors.rank_end import find_outside_mpi, find_problems, is_compiled, rank_end
from insitu.collectors.ranks import (
    COLUMN_INDEX,
    COLUMNS,
    GaugeValues,
    Rank,
    gauge_groups,
    root_gauges,
    table_groups,
)
from insitu.collectors.round_trips import RoundTrips
from insitu.collectors.samples import add_sampled_times, describe_samples
from insitu.collectors.steering import matches_any
from insitu.collectors.symbols import Symbols, is_annotating, is_launching
from insitu.collectors.table import COMPILED, REGION, STACK, Row, TableReader
from insitu.collectors.teams import team_gauges
from insitu.collectors.waiting import describe_uncompared
from insitu.collectors.windows import separate_window_bytes, window_gauges
from insitu.entities import CallPath
from insitu.errors import WireError
from insitu.function_names import split_function_name
from insitu.wire.digest import EMPTY_DIGEST, extend_digest
from insitu.wire.messages import (
    MAX_COST_BYTES,
    ROWS_PER_PATHS,
    SCHEMA,
    Bye,
    Digest,
    Group,
    Hello,
    Paths,
    Totals,
)
from insitu.wire.split import shorten_json

TotalsOfRanks = list[tuple[Rank, dict[str, Any]]]


class Node:
    """The tables of a run directory, with their call trees united in one dictionary of paths.

    The agent uses it while the ranks run, `insitu ingest` after they have ended.
    """

    def __init__(
        self,
        directory: str,
        *,
        token: str = "",
        incarnation: int | None = None,
        facts: Mapping[str, Any] | None = None,  # Any: JSON
        meter: EnergyMeter | None = None,
    ) -> None:
        self.directory = directory
        self.name = spool.node_name(directory)
        self.token = token
        self.facts = facts or {}  # of this machine, if the ranks run on it
        self.meter = meter  # likewise
        self.build: str | None = None  # of the program, once it was looked for while it runs
        self.incarnation = incarnation or time.time_ns()
        self.ranks: dict[str, Rank] = {}  # by file name of the table
        self.waiting: dict[str, Rank] = {}  # tables that may turn out not to be the program's
        self.superseded: dict[str, Rank] = {}  # tables of processes that are not the program
        self.damaged: dict[str, str] = {}  # why a table cannot be read, by file name
        self.path_ids: dict[tuple[int, str], int] = {}  # by parent and name
        self.paths: list[tuple[int, str, str, int]] = []  # parent, name, file, line
        self._digest = EMPTY_DIGEST  # of all paths
        self.throttled: dict[elision.Function, int] = {}  # visits before they were throttled
        self.unselected: set[elision.Function] = set()  # compiled, and left out by the user
        self.symbols = Symbols()
        self.event_values = EventValues()  # known when all ranks have ended

    # ---- reading tables -------------------------------------------------------------------------

    def scan(self) -> None:
        """Open new tables, read new rows, and find out which ranks have ended."""
        known = (self.ranks, self.waiting, self.superseded, self.damaged)
        for name in table_directory.table_names(self.directory):
            if not any(name in names for names in known):
                self._open(name)

        for name, rank in list(self.waiting.items()):
            update_state(rank)
            if not is_provisional(rank):
                self.ranks[name] = self.waiting.pop(name)
        for name in find_superseded(self.ranks):
            self.superseded[name] = self.ranks.pop(name)

        for name, rank in list(self.ranks.items()):
            try:
                self._update(rank)
            except WireError as error:
                self.damaged[name] = str(error)
                del self.ranks[name]

    def _open(self, name: str) -> None:
        try:
            table = TableReader(os.path.join(self.directory, name))
        except WireError as error:
            self.damaged[name] = str(error)
            return
        meta = read_meta(table)
        only, skip, throttled = (
            tuple(map(str, meta.get(key) or ())) for key in ("only", "skip", "throttled")
        )
        self.waiting[name] = Rank(
            table,
            table.header.rank,
            selection=(only, skip),
            throttled_before=frozenset(throttled),
        )

    def _update(self, rank: Rank) -> None:
        update_state(rank)
        rank.table.new_rows()
        head = rank.table.header
        if head.mpi_size > 1 or head.size <= 1:
            rank.number = head.mpi_rank if head.mpi_rank >= 0 else head.rank

        self._update_throttled(rank)
        for row in rank.table.rows[len(rank.node_rows) :]:
            self._append_node_row(rank, row)
        rank.tick_s = rank.table.tick_s() or rank.tick_s

    def _update_throttled(self, rank: Rank) -> None:
        """Note the functions that a rank has throttled since the last call.

        They are left out in all ranks, so the rows of all ranks are mapped again.
        """
        new_rows = [i for i in rank.table.throttled_rows() if i not in rank.throttled_rows]
        if not new_rows:
            return
        rank.throttled_rows.update(new_rows)

        visits = rank.table.totals(0.0)["visits"]
        has_new_function = False
        for i in new_rows:
            function = elision.function_of(rank.table.rows[i])
            has_new_function = has_new_function or function not in self.throttled
            self.throttled[function] = self.throttled.get(function, 0) + visits[i]

        if has_new_function:
            for other in self.ranks.values():
                del other.node_rows[:]
                for row in other.table.rows:
                    self._append_node_row(other, row)

    def _append_node_row(self, rank: Rank, row: Row) -> None:
        """Map the next row of a table to a row of the dictionary."""
        is_root = not rank.node_rows
        is_elided = elision.is_elided(row, self.throttled.keys())
        if not is_root and (is_elided or self._is_unselected(rank, row)):
            rank.node_rows.append(rank.node_rows[row.parent])
        else:
            rank.node_rows.append(self._path_id(rank, row, is_root=is_root))

    def _is_unselected(self, rank: Rank, row: Row) -> bool:
        """Whether --only, --skip or earlier runs leave out a compiled function.

        It counts for its caller. A rank cannot leave it out itself: it does not know its name.
        """
        if row.kind not in (COMPILED, STACK):
            return False
        only, skip = rank.selection
        throttled = rank.throttled_before if row.kind == COMPILED else frozenset()
        if not only and not skip and not throttled:
            return False

        name = self.symbols.name(row.file, row.name, before_ns=rank.table.header.created_ns)
        plain = split_function_name(name).name
        is_selected = not only or matches_any(only, plain, row.file)
        is_left_out = name in throttled or matches_any(skip, plain, row.file)
        if is_selected and not is_left_out:
            return False
        self.unselected.add(elision.function_of(row))
        return True

    def _path_id(self, rank: Rank, row: Row, *, is_root: bool) -> int:
        """The row of the dictionary for a row of a table; a new one if the path is new."""
        parent = 0 if is_root else rank.node_rows[row.parent]
        head = rank.table.header
        name = self.symbols.row_name(
            row, before_ns=head.created_ns, is_python=not is_compiled(head)
        )
        if row.kind == STACK and (name, row.file) == self._caller(rank, row):
            return parent  # a copy or a part of its caller that the compiler made
        if row.kind == STACK and (is_annotating(name) or is_launching(name)):
            return parent  # the regions and kernels that it begins are those of its caller
        if row.kind == STACK and called_function(name) == "":
            return parent  # the standard library calls what its caller gave it

        key = (0, "") if is_root else (parent, name)  # all ranks share the root
        if key not in self.path_ids:
            self.path_ids[key] = len(self.paths)
            self.paths.append((parent, name, row.file, row.line))
            self._digest = extend_digest(self._digest, parent, name, row.file, row.line)
        return self.path_ids[key]

    def _caller(self, rank: Rank, row: Row) -> tuple[str, str]:
        """Name and file of the function that called this one, through the regions between them."""
        caller = row.parent
        while rank.table.rows[caller].kind == REGION:
            caller = rank.table.rows[caller].parent
        _, name, file, _ = self.paths[rank.node_rows[caller]]
        return name, file

    def live_ranks(self) -> list[Rank]:
        """The ranks that have not ended."""
        return [r for r in (*self.ranks.values(), *self.waiting.values()) if not r.has_ended]

    @property
    def meta(self) -> dict[str, Any]:  # Any: JSON
        """The description of the run that the launcher wrote; needs at least one rank."""
        return read_meta(next(iter(self.ranks.values())).table)

    def _iteration_limit(self) -> int:
        """The iterations that suffice for the user, 0 for all."""
        limit = self.meta.get("iterations")
        return limit if isinstance(limit, int) else 0

    # ---- messages -------------------------------------------------------------------------------

    def hello(self) -> Hello:
        """The first message of a session; needs at least one rank."""
        heads = [rank.table.header for rank in self.ranks.values()]
        meta = self.meta
        configuration = {
            "parameters": meta.get("parameters", {}),
            "command": meta.get("command", []),
            "program": self.paths[0][1],
            "host": spool.host_name(self.directory),
            "cores": usable_cores(self._all_pids()),
            "python": meta.get("python", ""),
            "node": dict(self.facts),
            "insitu": meta.get("insitu", ""),
            "hook": heads[0].hook.rstrip(b"\0").decode("ascii", "replace"),
        }
        rates = [head.sample_hz for head in heads]
        build = self.build or meta.get("builds", {}).get(self.paths[0][1], "")
        more = {"sample_hz": max(rates), "iterations": self._iteration_limit(), "build": build}
        configuration |= {name: value for name, value in more.items() if value}
        return Hello(
            schema=SCHEMA,
            run=str(meta.get("run", "")),
            token=self.token,
            node=self.name,
            incarnation=self.incarnation,
            size=self._size(),
            ranks=tuple(sorted(rank.number for rank in self.ranks.values())),
            started_ns=min(head.created_ns for head in heads),
            configuration=json.dumps(configuration),
            columns=COLUMNS,
        )

    def _size(self) -> int:
        """The number of ranks of the run; needs at least one rank."""
        heads = [rank.table.header for rank in self.ranks.values()]
        mpi_sizes = [head.mpi_size for head in heads if head.mpi_size > 1]
        return max(mpi_sizes or [heads[0].size])

    def _all_pids(self) -> list[int]:
        """The processes of all ranks of the run if they are all on this node, else none."""
        heads = [rank.table.header for rank in self.ranks.values()]
        size = max((max(head.mpi_size, head.size) for head in heads), default=0)
        return [head.pid for head in heads] if len(heads) == size else []

    def digest(self) -> Digest:
        """A hash that identifies the dictionary without sending its names."""
        return Digest(len(self.paths), self._digest)

    def new_paths(self, known: int) -> list[Paths]:
        """The dictionary from row `known` on, split into messages that fit into frames."""
        return [
            self._paths(first, self.paths[first : first + ROWS_PER_PATHS])
            for first in range(known, len(self.paths), ROWS_PER_PATHS)
        ]

    def _paths(self, first: int, rows: list[tuple[int, str, str, int]]) -> Paths:
        return Paths(
            first=first,
            parents=array("I", [parent for parent, *_ in rows]).tobytes(),
            names=tuple(name for _, name, _, _ in rows),
            files=tuple(file for _, _, file, _ in rows),
            lines=array("I", [line for *_, line in rows]).tobytes(),
        )

    def has_pending_totals(self) -> bool:
        """Whether a rank is alive, or its final totals have not been taken yet."""
        return any(not rank.is_final for rank in self.ranks.values())

    def totals(self, sequence: int, *, everything: bool = False) -> Totals:
        """The totals of ranks that are alive or have ended since the last call, or of all ranks."""
        due = [rank for rank in self.ranks.values() if everything or not rank.is_final]
        measured = self._read_totals(due)

        # Waiting is reported once, when the collective events of all ranks are complete.
        ended = [] if self.live_ranks() else measured
        for rank, _ in ended:
            rank.is_final = True

        groups = self._groups_of_tables(measured)
        gauges: list[GaugeValues] = []
        for rank in due:
            gauges.append(root_gauges(rank))
            gauges += iteration_gauges(rank)
            gauges += phase_gauges(rank)
            gauges += partner_gauges(rank)
            gauges += communicator_gauges(rank)
        for rank, columns in measured:
            gauges += team_gauges(rank, columns)
            gauges += device_gauges(rank, columns)
            gauges += window_gauges(rank, columns)
        gauges += self._energy_gauges(due)
        ranks = list(self.ranks.values())
        if ended:
            is_whole_run = len(ranks) >= self._size()
            self.event_values = read_event_values(ranks, ended, is_whole_run=is_whole_run)
            gauges += self.event_values.gauges
        groups += gauge_groups(gauges)
        return Totals(sequence, time.time_ns(), tuple(groups))

    def _energy_gauges(self, due: list[Rank]) -> list[GaugeValues]:
        """The energy of the node as equal shares of its ranks, at the root of the call tree."""
        joules = self.meter.read_joules() if self.meter is not None else None
        if joules is None:
            return []
        share = joules / len(self.ranks)
        return [(rank.number, 0, {"energy": share}) for rank in due]

    def _read_totals(self, ranks: list[Rank]) -> TotalsOfRanks:
        """Read the columns of tables, with throttled functions counted for their callers."""
        fallback_s = max((rank.tick_s for rank in self.ranks.values()), default=0.0)
        measured: TotalsOfRanks = []
        for rank in ranks:
            rank.tick_s = rank.tick_s or fallback_s
            if not rank.tick_s:
                continue  # a few microseconds old: the rate of its clock is not known yet
            totals = rank.table.totals(rank.tick_s, is_alive=rank.is_running)
            separate_window_bytes(totals, rank.table.rows)
            left_out = self.throttled.keys() | self.unselected
            if left_out:
                elision.fold_into_callers(totals, rank.table.rows, left_out)
            add_sampled_times(
                totals, rank.table.rows, rank.node_rows, rank.table.header, rank.tick_s
            )
            measured.append((rank, totals))
        return measured

    def _groups_of_tables(self, measured: TotalsOfRanks) -> list[Group]:
        """Groups of ranks with the same rows, then groups with their heaps."""
        by_rows: dict[tuple[bytes, bytes, bool], TotalsOfRanks] = {}
        heaps: list[heap.RankHeap] = []
        for rank, totals in measured:
            kinds = bytes(min(row.kind, 255) for row in rank.table.rows)  # a damaged kind, too
            key = (rank.node_rows.tobytes(), kinds, bool(rank.table.header.sample_hz))
            by_rows.setdefault(key, []).append((rank, totals))

            rank_heap = heap.read_heap(rank.number, rank.table.rows, rank.node_rows, totals)
            if rank_heap is not None:
                heaps.append(rank_heap)

        groups: list[Group] = []
        for (rows, kinds, is_sampled), members in by_rows.items():
            groups += table_groups(array("I", rows), kinds, members, is_sampled=is_sampled)
        groups += heap.heap_groups(heaps, tuple(COLUMN_INDEX[name] for name in heap.NAMES))
        return groups

    def is_tsc(self) -> bool:
        """Whether ticks are those of the time stamp counter; needs at least one rank."""
        return bool(next(iter(self.ranks.values())).table.header.is_tsc)

    def bye(
        self, final_sequence: int, cost: dict[str, Any], round_trips: RoundTrips | None = None
    ) -> Bye:
        """The last message of a session: how every rank ended.

        Args:
            final_sequence: the sequence number of the last totals.
            cost: what the agent itself has cost; values of all ranks are added.
            round_trips: those of the agent, if there was one.
        """
        ranks = self.ranks.values()
        heads = [rank.table.header for rank in ranks]
        ends, findings = [], []
        for rank, head in zip(ranks, heads, strict=True):
            end = rank_end(rank.number, head)
            ends.append(end)
            for code, text in find_problems(head, end):
                findings.append((code, text, f"rank {rank.number}"))
            if text := describe_unnumbered(rank):
                findings.append(("messages-unnumbered", text, f"rank {rank.number}"))
        if text := describe_uncompared(ranks):
            findings.append(("waiting-unclear", text, ""))
        if self.event_values.problem:
            findings.append(("events-unread", self.event_values.problem, ""))
        findings += find_outside_mpi([rank.table for rank in ranks], ends)
        findings += describe_superseded(self.superseded.values())
        for code, text in describe_limit(ranks, self._iteration_limit()):
            findings.append((code, text, ""))
        throttled = self._throttled_functions()
        if any(head.throttled for head in heads):
            findings.append(("throttled", elision.describe_throttled(heads, throttled), ""))
        for name, reason in self.damaged.items():
            findings.append(("table-damaged", reason, name))

        cost = cost | {"hook_share": round(max(rank.table.hook_share() for rank in ranks), 5)}
        cost |= describe_samples(heads)
        if busy_threads := max(head.busy_threads for head in heads):
            cost["threads"] = busy_threads
        opened = describe_opened(ranks)
        if opened:
            cost["opened"] = opened
        left_out = {name for name, file, _ in throttled if file in self.symbols.files}
        left_out |= {name for rank in ranks for name in rank.throttled_before}
        if left_out:
            cost["throttled"] = sorted(left_out)
        if self.event_values.delays:
            cost["delays"] = describe_delays(self.event_values.delays, self.callpaths())
        iterations = sample_iterations(ranks)
        if iterations:
            cost["iterations"] = iterations
        ended_ns = max(head.ended_ns for head in heads) or time.time_ns()
        spanning = describe_spanning_calls(
            list(ranks), size=self._size(), round_trips=round_trips or RoundTrips()
        )
        return Bye(
            final_seq=final_sequence,
            ends=tuple(ends),
            ended_ns=ended_ns,
            cost=shorten_json(cost, MAX_COST_BYTES),
            findings=tuple(findings),
            collectives=spanning.collectives,
            messages=spanning.messages,
            intervals=spanning.intervals,
        )

    def callpaths(self) -> list[CallPath]:
        """The call path of each row of the dictionary."""
        callpaths: list[CallPath] = []
        for row, (parent, name, _, _) in enumerate(self.paths):
            callpaths.append((callpaths[parent] if row else CallPath(())).child(name))
        return callpaths

    def _throttled_functions(self) -> dict[elision.Function, int]:
        """The throttled functions by their names, with their visits before they were throttled."""
        # A table names a compiled function by its address. Resolve it for readers.
        throttled = {}
        for (name, file, line), visits in self.throttled.items():
            is_compiled = file in self.symbols.files
            shown = self.symbols.name(file, name, before_ns=0) if is_compiled else name
            throttled[shown, file, line] = visits
        return throttled

    def remove_tables(self) -> None:
        """Delete the tables that were sent, and the run directory if no table is left."""
        for tables in (self.ranks, self.superseded):
            for name, rank in tables.items():
                rank.table.close()
                os.unlink(os.path.join(self.directory, name))
            tables.clear()
        if not table_directory.table_names(self.directory):
            shutil.rmtree(self.directory, ignore_errors=True)


def read_meta(table: TableReader) -> dict[str, Any]:  # Any: JSON
    """The description of the run that the launcher wrote into a table; {} if it is damaged."""
    try:
        meta = json.loads(table.meta())
    except ValueError:
        return {}
    return meta if isinstance(meta, dict) else {}
