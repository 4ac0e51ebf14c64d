"""Aggregators, ranks and agents that are killed at random moments; values against the truth."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from insitu.campaign.store import open_store
from insitu.collectors.bootstrap import start_agent
from insitu.collectors.leftovers import has_agent
from insitu.entities import RunRecord, RunState
from tests.support.listeners import COUNTING_PROGRAM, WAIT_S, Relay, Server, until
from tests.support.processes import HERE, CommandForker, Start, find_files, start_command

LINGER_S = 6.0  # of an agent whose aggregator may be gone for good, on a loaded machine
KILLS_PER_RUN = 20
BEFORE_THE_END = 0.7  # of the kills of a run; the others come while it is brought in
RUNS_OF_CAMPAIGN = 5
RANKS_OF_RUN, KILLED_OF_RUN = 40, 36  # where ranks are killed
Kind = Callable[["Job", random.Random, int, Counter[str]], int]


@dataclass
class Job:
    """Ranks of one run, started by hand as a launcher would."""

    folder: Path
    campaign: Path
    size: int
    number: int
    start_command: Start = start_command
    ranks: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self) -> None:
        """Start all ranks and wait until each has a table."""
        self.stop_file.unlink(missing_ok=True)
        for rank in range(self.size):
            words = [sys.executable, "-m", "insitu.run", "--campaign", str(self.campaign)]
            words += ["--beat", "0.05", "--quiet", str(self.folder / "app.py")]
            more = {"PMI_RANK": str(rank), "PMI_SIZE": str(self.size)}
            more["PMI_JOBID"] = f"{self.folder}-{self.number}"
            environment = {**os.environ, **more, **self.environment()}
            files = [str(self.truth(rank)), str(self.stop_file), str(0.001 * self.size)]
            self.ranks.append(subprocess.Popen([*words, *files], env=environment))
        until(lambda: len(self.tables()) == self.size and all(map(self.counted, range(self.size))))

    def environment(self) -> dict[str, str]:
        """Where insitu is, and where tables go."""
        return {"PYTHONPATH": str(HERE), "INSITU_TABLES": str(self.folder / "tables")}

    @property
    def stop_file(self) -> Path:
        """Ranks end when it is there."""
        return self.folder / f"stop-{self.number}"

    def truth(self, rank: int) -> Path:
        """The file in which a rank counts."""
        return self.folder / f"truth-{self.number}-{rank}"

    def counted(self, rank: int) -> int:
        """How often a rank has called step, or one more."""
        try:
            return int.from_bytes(self.truth(rank).read_bytes(), "little")
        except FileNotFoundError:
            return 0

    def tables(self) -> list[Path]:
        """The tables of this run; earlier ones have been brought in."""
        return find_files(self.folder / "tables", "*.table")

    def end(self) -> None:
        """Let all ranks end."""
        self.stop_file.touch()
        for rank in self.ranks:
            rank.wait(WAIT_S)


def kill(folder: Path, length: int, kind: Kind) -> Counter[str]:
    """Kill processes of one kind so many times; what became of the values."""
    os.environ["INSITU_TABLES"] = str(folder / "tables")
    (folder / "app.py").write_text(COUNTING_PROGRAM)
    (folder / "tables").mkdir()
    counts: Counter[str] = Counter()
    rng = random.Random(length)
    left, number = length, 0
    size, most = (RANKS_OF_RUN, KILLED_OF_RUN) if kind is ranks else (2, KILLS_PER_RUN)
    with CommandForker() as forker:
        while left > 0:
            number += 1
            many = min(left, most)
            campaign = folder / f"{number // RUNS_OF_CAMPAIGN}.insitu"
            job = Job(folder, campaign, min(size, many + 4), number)
            job.start_command = forker.start
            left -= kind(job, rng, many, counts)
            counts["runs"] += 1
            if number % 5 == 0:
                print(f"  {dict(counts)}", file=sys.stderr, flush=True)
    return counts


def aggregators(job: Job, rng: random.Random, number: int, counts: Counter[str]) -> int:
    """Kill the aggregator while ranks run, and after they have ended."""
    server = Server(job.campaign, start=job.start_command).wait()
    job.start()
    for i in range(number):
        if i == int(BEFORE_THE_END * number):
            job.end()
        if rng.random() < 0.8:
            server.wait()
        time.sleep(rng.uniform(0, 0.3))
        server.kill()
        server = Server(job.campaign, start=job.start_command)
    job.end()
    until(lambda: not job.tables(), LINGER_S)
    server.wait().end()
    _ingest(job)
    counts["aggregators killed"] += number
    _judge(job, counts, killed=())
    return number


def agents(job: Job, rng: random.Random, number: int, counts: Counter[str]) -> int:
    """Kill the agent, start another; the last one is killed or ends by itself."""
    server = Server(job.campaign, start=job.start_command).wait()
    job.start()
    directory = str(job.tables()[0].parent)
    variables = {**os.environ, **job.environment()}
    variables |= {"INSITU_HOME": str(HERE), "INSITU_PYTHON": sys.executable}
    done = 0
    for _ in range(number):
        time.sleep(rng.uniform(0, 0.3))
        done += _kill_agent(directory)
        start_agent(directory, variables)
    job.end()
    if rng.random() < 0.5:
        done += _kill_agent(directory)
    else:
        until(lambda: not job.tables(), LINGER_S)
    server.end()
    _ingest(job)
    counts["agents killed"] += done
    _judge(job, counts, killed=())
    return max(done, 1)


def relays(job: Job, rng: random.Random, number: int, counts: Counter[str]) -> int:
    """Kill the relays between agent and aggregator, and now and then the aggregator."""
    server = Server(job.campaign, start=job.start_command).wait()
    below = [Relay(job.campaign, name, start=job.start_command).wait() for name in ("a", "b")]
    job.start()
    for i in range(number):
        if i == int(BEFORE_THE_END * number):
            job.end()
        time.sleep(rng.uniform(0, 0.3))
        which = rng.randrange(2)
        below[which].kill()
        if rng.random() < 0.2:
            server.kill()
            server = Server(job.campaign, start=job.start_command).wait()
            counts["aggregators killed above relays"] += 1
        below[which] = Relay(job.campaign, "ab"[which], start=job.start_command)
        if rng.random() < 0.8:
            below[which].wait()
    job.end()
    until(lambda: not job.tables(), LINGER_S)
    counts["runs through a relay"] += not job.tables()
    for relay in below:
        relay.wait().end()
    server.wait().end()
    _ingest(job)
    counts["relays killed"] += number
    _judge(job, counts, killed=())
    return number


def ranks(job: Job, rng: random.Random, number: int, counts: Counter[str]) -> int:
    """Kill some of the ranks."""
    server = Server(job.campaign, start=job.start_command).wait()
    job.start()
    killed = tuple(sorted(rng.sample(range(job.size), number)))
    for rank in killed:
        time.sleep(rng.uniform(0, 0.1))
        job.ranks[rank].kill()
    job.end()
    until(lambda: not job.tables(), LINGER_S)
    server.end()
    _ingest(job)
    counts["ranks killed"] += len(killed)
    _judge(job, counts, killed=killed)
    return number


def _kill_agent(directory: str) -> int:
    """Kill the agent of a run directory; whether there was one."""
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if b"insitu.collectors.agent" in line and line.endswith(directory.encode() + b"\0"):
            try:
                os.kill(int(entry.name), signal.SIGKILL)
            except ProcessLookupError:
                return 0
            return until(lambda: not has_agent(directory))
    return 0


def _ingest(job: Job) -> None:
    """Bring in what is left; nothing left is fine."""
    process = job.start_command(["ingest", str(job.campaign)], job.folder / "ingest.log")
    if process.wait(WAIT_S):
        raise RuntimeError(f"ingest failed: {job.folder / 'ingest.log'}")


def _judge(job: Job, counts: Counter[str], *, killed: tuple[int, ...]) -> None:
    """Compare the last run of the campaign with what its ranks counted."""
    with open_store(str(job.campaign)) as store:
        record = store.runs()[-1]
        table = store.table(record.id)
    if len(table.callpaths) == 0:
        counts["ranks lost"] += job.size
        return
    row = next(i for i, path in enumerate(table.callpaths) if path.frames[-1] == "step")
    for rank in range(job.size):
        visits, truth = table.values["visits"][row, rank], job.counted(rank)
        counts["ranks compared"] += 1
        if np.isnan(visits):
            counts["ranks lost"] += 1
        elif rank in killed:
            counts["ranks torn"] += visits not in (truth, truth + 1)
        else:
            counts["values wrong"] += int(visits != truth)
    if not _is_marked(record, killed):
        counts["runs unmarked"] += 1
        print(f"  killed {killed}: {record}", file=sys.stderr)
    counts["tables lost"] += len(job.tables())


def _is_marked(record: RunRecord, killed: tuple[int, ...]) -> bool:
    state = RunState.INCOMPLETE if killed else RunState.COMPLETE
    return record.state is state and record.missing == killed
