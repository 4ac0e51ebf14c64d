"""The ranks of one run on one node: their tables as messages, for the live agent and for ingest
alike."""

import fcntl
import json
import os
import shutil
import time
from array import array
from typing import Any

from insitu.campaign import layout
from insitu.collectors import (
    elision,
    endings,
    heap,
    iterations,
    phases,
    smaps,
    spool,
    table_directory,
    waiting,
)
from insitu.collectors.ranks import (
    COLUMNS,
    INDEX,
    Level,
    Rank,
    level_groups,
    of_the_root,
    table_groups,
)
from insitu.collectors.symbols import Symbols
from insitu.collectors.table import (
    COMPILED,
    MPI,
    RUNNING,
    Row,
    TableReader,
)
from insitu.errors import WireError
from insitu.wire.digest import EMPTY_DIGEST, extend_digest
from insitu.wire.messages import (
    ROWS_PER_PATHS,
    SCHEMA,
    Bye,
    Digest,
    Group,
    Hello,
    Message,
    Paths,
    Totals,
)

SETTLE_S = 5.0  # at most, for agents whose ranks have ended to let go


class Node:
    """Reads the tables of a run directory and unites their call trees into one dictionary."""

    def __init__(self, directory: str, *, token: str = "", incarnation: int | None = None) -> None:
        self.directory = directory
        self.name = spool.node_name(directory)
        self.token = token
        self.incarnation = incarnation or time.time_ns()
        self.ranks: dict[str, Rank] = {}
        self.damaged: dict[str, str] = {}
        self.ids: dict[tuple[int, str], int] = {}
        self.paths: list[tuple[int, str, str, int]] = []
        self._digest = EMPTY_DIGEST  # of all rows of the dictionary
        self.throttled: dict[elision.Function, int] = {}  # with the visits until then
        self.symbols = Symbols()

    # ---- what there is ------------------------------------------------------------------------

    def scan(self) -> None:
        """Open tables that appeared, read new rows, see which ranks have ended."""
        for name in table_directory.table_names(self.directory):
            if name not in self.ranks.keys() | self.damaged.keys():
                self._open(name)
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
        self.ranks[name] = Rank(table, table.header.rank)

    def _update(self, rank: Rank) -> None:
        # Look whether the process is alive before its state is read: a rank may end in between.
        is_alive = smaps.is_alive(rank.table.header.pid, rank.table.header.pid_started)
        rank.table.new_rows()  # reads the header too, once per heartbeat
        head = rank.table.header
        if head.mpi_size > 1 or head.size <= 1:
            rank.number = head.mpi_rank if head.mpi_rank >= 0 else head.rank
        rank.has_ended = head.state != RUNNING or not is_alive
        self._learn_throttled(rank)
        for row in rank.table.rows[len(rank.node_rows) :]:
            self._place(rank, row)
        rank.tick_s = rank.table.tick_s() or rank.tick_s

    def _learn_throttled(self, rank: Rank) -> None:
        """What one rank throttles is no row of the node any more."""
        fresh = [i for i in rank.table.throttled() if i not in rank.throttled_rows]
        rank.throttled_rows.update(fresh)
        visits = rank.table.totals(0.0)["visits"] if fresh else ()
        is_new = False
        for i in fresh:
            function = elision.function_of(rank.table.rows[i])
            is_new = is_new or function not in self.throttled
            self.throttled[function] = self.throttled.get(function, 0) + visits[i]
        for other in self.ranks.values() if is_new else ():
            del other.node_rows[:]
            for row in other.table.rows:
                self._place(other, row)

    def _place(self, rank: Rank, row: Row) -> None:
        is_elided = rank.node_rows and elision.is_elided(row, self.throttled.keys())
        place = rank.node_rows[row.parent] if is_elided else self._id(rank, row)
        rank.node_rows.append(place)

    def _shown(self, function: elision.Function) -> elision.Function:
        """A compiled function is known by its address until people read of it."""
        name, file, line = function
        if file in self.symbols.files:
            name = self.symbols.name(file, name, before_ns=0)
        return name, file, line

    def _id(self, rank: Rank, row: Row) -> int:
        parent = rank.node_rows[row.parent] if rank.node_rows else 0
        name = row.name
        if row.kind == COMPILED:
            name = self.symbols.name(row.file, name, before_ns=rank.table.header.created_ns)
        key = (parent, name) if self.paths and rank.node_rows else (0, "")
        if key not in self.ids:
            self.ids[key] = len(self.paths)
            self.paths.append((parent, name, row.file, row.line))
            self._digest = extend_digest(self._digest, parent, name, row.file, row.line)
        return self.ids[key]

    def live(self) -> list[Rank]:
        """The ranks that have not ended."""
        return [rank for rank in self.ranks.values() if not rank.has_ended]

    @property
    def meta(self) -> dict[str, Any]:  # Any: JSON
        """What the launcher said about the run."""
        return meta_of(next(iter(self.ranks.values())).table)

    # ---- as messages --------------------------------------------------------------------------

    def hello(self) -> Hello:
        """The session's first message; needs at least one rank."""
        heads = [rank.table.header for rank in self.ranks.values()]
        meta = self.meta
        size = max([head.mpi_size for head in heads if head.mpi_size > 1] or [heads[0].size])
        configuration = {
            "parameters": meta.get("parameters", {}),
            "command": meta.get("command", []),
            "program": self.paths[0][1],
            "host": spool.host_name(self.directory),
            "cores": os.cpu_count(),
            "python": meta.get("python", ""),
            "insitu": meta.get("insitu", ""),
            "hook": heads[0].hook.rstrip(b"\0").decode("ascii", "replace"),
        }
        return Hello(
            schema=SCHEMA,
            run=str(meta.get("run", "")),
            token=self.token,
            node=self.name,
            incarnation=self.incarnation,
            size=size,
            ranks=tuple(sorted(rank.number for rank in self.ranks.values())),
            started_ns=min(head.created_ns for head in heads),
            configuration=json.dumps(configuration),
            columns=COLUMNS,
        )

    def digest(self) -> Digest:
        """What tells the dictionary from others, without its names."""
        return Digest(len(self.paths), self._digest)

    def new_paths(self, known: int) -> list[Paths]:
        """The dictionary from row `known` on, in messages that fit into frames."""
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

    def has_news(self) -> bool:
        """Whether a rank is alive, or its totals after its end have not been taken yet."""
        return any(not rank.is_final for rank in self.ranks.values())

    def totals(self, seq: int, *, everything: bool = False) -> Totals:
        """The totals of all ranks that are alive or have ended since, or of every rank."""
        due = [r for r in self.ranks.values() if everything or not r.is_final]
        fallback = max((rank.tick_s for rank in self.ranks.values()), default=0.0)
        groups: dict[tuple[bytes, bytes], list[tuple[Rank, dict[str, Any]]]] = {}
        heaps: list[heap.RankHeap] = []
        ended: list[tuple[Rank, dict[str, Any]]] = []
        is_over = not self.live()  # who waited for whom is told once, of all ranks
        for rank in due:
            tick_s = rank.tick_s or fallback
            if not tick_s:
                continue  # a few microseconds old: its clock cannot be read yet
            rank.tick_s = tick_s
            totals = rank.table.totals(tick_s, is_alive=not rank.has_ended)
            if self.throttled:
                elision.fold(totals, rank.table.rows, self.throttled.keys())
            kinds = bytes(row.kind == MPI for row in rank.table.rows)
            groups.setdefault((rank.node_rows.tobytes(), kinds), []).append((rank, totals))
            found = heap.read_heap(rank.number, rank.table.rows, rank.node_rows, totals)
            heaps += [found] if found else []
            rank.is_final = is_over
            ended += [(rank, totals)] if is_over else []
        built: list[Group] = []
        for (rows, kinds), members in groups.items():
            built += table_groups(array("I", rows), kinds, members)
        built += heap.heap_groups(heaps, tuple(INDEX[name] for name in heap.NAMES))
        levels: list[Level] = [(rank.number, 0, of_the_root(rank)) for rank in due]
        levels += [(r.number, *iterations.of(r.table, r.node_rows, r.tick_s)) for r in due]
        levels += [level for rank in due for level in phases.levels(rank)]
        levels += waiting.levels(self.ranks.values(), ended)
        built += level_groups(levels)
        return Totals(seq, time.time_ns(), tuple(built))

    def bye(self, final_seq: int, cost: dict[str, Any]) -> Bye:
        """How every rank of this node ended."""
        ends, findings = [], []
        for rank in self.ranks.values():
            head = rank.table.header
            ends.append(endings.end(rank.number, head))
            found = endings.said(head, ends[-1])
            findings += [(code, text, f"rank {rank.number}") for code, text in found]
        heads = [rank.table.header for rank in self.ranks.values()]
        if any(head.throttled for head in heads):
            throttled = {self._shown(f): visits for f, visits in self.throttled.items()}
            findings.append(("throttled", elision.said(heads, throttled), ""))
        for name, text in self.damaged.items():
            findings.append(("table-damaged", text, name))
        ended = max(head.ended_ns for head in heads)
        hooks = [rank.table.hook_share() for rank in self.ranks.values()]
        turns = iterations.told(self.ranks.values())
        cost = (
            cost | {"hook_share": round(max(hooks), 5)} | ({"iterations": turns} if turns else {})
        )
        return Bye(
            final_seq, tuple(ends), ended or time.time_ns(), json.dumps(cost), tuple(findings)
        )

    def remove_tables(self) -> None:
        """Delete the tables that were brought in; the run directory with the last of them."""
        for name, rank in self.ranks.items():
            rank.table.close()
            os.unlink(os.path.join(self.directory, name))
        self.ranks.clear()
        if not table_directory.table_names(self.directory):
            shutil.rmtree(self.directory, ignore_errors=True)


def meta_of(table: TableReader) -> dict[str, Any]:  # Any: JSON
    """What the launcher said about the run of this table, {} if that is damaged."""
    try:
        meta = json.loads(table.meta())
    except ValueError:
        return {}
    return meta if isinstance(meta, dict) else {}


# ---- what ranks left behind
# -------------------------------------------------------------------------


def leftovers(campaign: str) -> list[str]:
    """Run directories on this machine, and in the campaign's spool, whose tables wait for ingest.

    An agent whose ranks have ended lets go within its linger: that is waited for.
    """
    campaign = os.path.realpath(campaign)
    found = [path for path in table_directory.run_directories() if _campaign_of(path) == campaign]
    brought = os.path.join(campaign, layout.SPOOL)
    if os.path.isdir(brought):
        found += sorted(entry.path for entry in os.scandir(brought) if entry.is_dir())
    deadline = time.monotonic() + SETTLE_S
    while any(map(_is_ending, found)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [path for path in found if os.path.isdir(path)]


def _is_ending(directory: str) -> bool:
    """Whether a live agent holds this run directory although all its ranks have ended."""
    if not has_agent(directory):
        return False
    ranks = Node(directory)
    ranks.scan()
    return not ranks.live()


def _campaign_of(directory: str) -> str:
    for name in table_directory.table_names(directory):
        try:
            table = TableReader(os.path.join(directory, name))
        except WireError:
            continue
        meta = meta_of(table)
        table.close()
        return os.path.realpath(str(meta.get("campaign", "")))
    return ""


def has_agent(directory: str) -> bool:
    """Whether a live agent holds this run directory."""
    try:
        lock = os.open(os.path.join(directory, table_directory.AGENT_LOCK), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def messages(directory: str, *, token: str = "") -> list[Message]:
    """Everything that the dead ranks of a run directory left, as the agent would have sent it.

    Raises:
        WireError: there is no readable table.
    """
    node = Node(directory, token=token)
    node.scan()
    if not node.ranks:
        reasons = "; ".join(node.damaged.values()) or "no table in it"
        raise WireError(f"{directory}: nothing to bring in: {reasons}")
    totals = node.totals(1, everything=True)
    return [node.hello(), *node.new_paths(0), totals, node.bye(1, {})]


def remove(directory: str) -> None:
    """Delete a run directory that was brought in."""
    shutil.rmtree(directory, ignore_errors=True)
