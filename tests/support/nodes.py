"""Nodes whose ranks measure made-up values: what an agent would say of them, with the truth."""

import json
from dataclasses import dataclass, field

import numpy as np

from insitu.wire.digest import EMPTY_DIGEST, extend_digest
from insitu.wire.messages import SCHEMA, Bye, Column, Digest, Group, Hello, Paths, RankEnd, Totals

COLUMNS = (
    Column("visits", "1", "total", "u8"),
    Column("time", "s", "total", "u8"),
    Column("memory_rss", "B", "level", "f8"),
)
TICK_S = 0.5
RUN = "0" * 31 + "1"
TOKEN = "a" * 64


@dataclass
class ModelNode:
    """A node: its ranks' visits per call path; time is three ticks for each visit."""

    name: str
    ranks: list[int]
    size: int
    run: str = RUN
    token: str = TOKEN
    incarnation: int = 1
    parameters: dict[str, float] = field(default_factory=lambda: {"n": 4.0})
    paths: list[str] = field(default_factory=lambda: ["main"])
    visits: dict[int, list[int]] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)

    def __post_init__(self):
        self.visits = self.visits or {rank: [1] for rank in self.ranks}

    def work(self, path: str, by: int = 1) -> None:
        """Every rank calls a function below main, as often as its number says and more."""
        if path not in self.paths:
            self.paths.append(path)
        row = self.paths.index(path)
        for rank, visits in self.visits.items():
            visits.extend([0] * (len(self.paths) - len(visits)))
            visits[row] += by + rank

    def truth(self, rank: int) -> dict[str, float]:
        """What the table of the run should say of a rank: visits per call path."""
        below = zip(self.paths, self.visits[rank], strict=True)
        return {p if p == "main" else f"main->{p}": float(v) for p, v in below if v}

    def hello(self) -> Hello:
        return Hello(
            schema=SCHEMA,
            run=self.run,
            token=self.token,
            node=self.name,
            incarnation=self.incarnation,
            size=self.size,
            ranks=tuple(self.ranks),
            started_ns=10**18,
            configuration=json.dumps({"parameters": self.parameters, "command": ["heat", "-n 4"]}),
            columns=COLUMNS,
        )

    def dictionary(self, first: int = 0) -> Paths:
        names = tuple(self.paths[first:])
        zeros = bytes(4 * len(names))
        return Paths(first, zeros, names, ("heat.py",) * len(names), zeros)

    def digest(self) -> Digest:
        digest = EMPTY_DIGEST
        for name in self.paths:
            digest = extend_digest(digest, 0, name, "heat.py", 0)
        return Digest(len(self.paths), digest)

    def totals(self, seq: int) -> Totals:
        rows = np.arange(len(self.paths), dtype="<u4").tobytes()
        visits = np.array([self.visits[rank] for rank in self.ranks], dtype="<u8")
        ranks = np.array(self.ranks, "<i4").tobytes()
        ticks = np.full(len(self.ranks), TICK_S).tobytes()
        memory = np.array([1e6 + rank for rank in self.ranks]).tobytes()
        return Totals(
            seq,
            10**18,
            (
                Group(ranks, rows, ticks, (0, 1), (visits.tobytes(), (3 * visits).tobytes())),
                Group(ranks, bytes(4), ticks, (2,), (memory,)),
            ),
        )

    def bye(self, final_seq: int) -> Bye:
        ends = tuple(
            RankEnd(rank, self.statuses.get(rank, 0), self.statuses.get(rank, 0) >= 0)
            for rank in self.ranks
        )
        return Bye(final_seq, ends, 11 * 10**17, '{"agent_cpu_s": 0.1}')

    def messages(self, seq: int = 1) -> list:
        """All that its agent says in a life without trouble."""
        return [self.hello(), self.dictionary(), self.totals(seq), self.bye(seq)]


def column(table, rank: int, metric: str = "visits") -> dict[str, float]:
    """One rank's values in a table of a run, those that it has."""
    values = table.values[metric][:, rank]
    return {
        str(c): float(v) for c, v in zip(table.callpaths, values, strict=True) if not np.isnan(v)
    }
