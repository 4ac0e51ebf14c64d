"""A campaign as Prometheus asks for it: what is measured just now, beside what models say."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from insitu.campaign.store import SqliteStore, open_store
from insitu.formats.openmetrics import END, family, model_lines, sample, state_lines
from insitu.monitor.board import Board, SeriesRow
from insitu.monitor.client import BoardClient, find_address
from insitu.monitor.forecast import SLOWER

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
WAIT_S = 1.5  # for an aggregator that runs to be heard; nobody waits where there is none
KEPT = ("sealed", "partial")
# Each family of what is measured just now: its unit, where it has one, and its help.
FAMILIES = {
    "insitu_live": ("", "Whether a run is being measured just now."),
    "insitu_run_ranks": ("", "Ranks of runs that are being measured, by their state."),
    "insitu_run_progress_ratio": ("ratio", "How far a run is by the visits that models predict."),
    "insitu_share_ratio": ("ratio", "Share of a call path in the cost at the largest scale."),
    "insitu_value": ("", "Newest measured value per rank, at the largest scale."),
    "insitu_live_value": ("", "Value per rank so far in the run that is being measured."),
    "insitu_live_expected": ("", "What models of other runs predict for it so far."),
    "insitu_live_slower": ("", "1 where a call path is slower than its models allow."),
}


class Metrics:
    """The newest board and models of a campaign as OpenMetrics text; closed when it ends."""

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign
        self._thread = ThreadPoolExecutor(1)  # a board client belongs to one thread
        self._client: BoardClient | None = None
        self._store: SqliteStore | None = None
        self._board = Board()
        self._of_models = ""  # what is told of them changes with them, and takes a while
        self._seen = -1

    async def text(self) -> str:
        """What there is to tell now.

        Raises:
            CampaignError: the campaign cannot be read any more.
            WireError: the aggregator publishes what this insitu does not read.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read)

    async def close(self) -> None:
        """Let go of the files."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _read(self) -> str:
        if self._client is None or self._store is None:
            self._client, self._store = BoardClient(self._campaign), open_store(self._campaign)
        is_running = find_address(self._campaign) is not None
        self._board = self._client.newest(WAIT_S * is_running) or self._board
        changes = self._store.changes()
        if changes != self._seen:
            self._of_models = "\n".join(model_lines(self._store.models()))
            self._seen = changes
        now = board_lines(self._board, is_live=self._client.is_live)
        return "\n".join([*now, self._of_models, END, ""])

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
        if self._store is not None:
            self._store.close()


def board_lines(board: Board, *, is_live: bool) -> Iterator[str]:
    """What a board tells: runs, findings, what is measured just now."""
    yield from state_lines(Counter(run.state for run in board.runs), board.findings)
    for name, (unit, told) in FAMILIES.items():
        yield from family(name, unit, told)
        if name == "insitu_live":
            going = any(run.state not in KEPT for run in board.runs)
            yield sample(name, {}, int(is_live and going))
        elif name.startswith("insitu_run_"):
            yield from _of_runs(name, board)
        elif name == "insitu_share_ratio":
            shares = {row.callpath: row.share for row in board.series}
            yield from (sample(name, {"callpath": path}, of) for path, of in shares.items())
        else:
            for row in board.series:
                yield from _of_row(name, row)


def _of_runs(name: str, board: Board) -> Iterator[str]:
    for run in board.runs:
        if run.state in KEPT:
            continue
        if name == "insitu_run_progress_ratio":
            if run.part is not None:
                yield sample(name, {"run": run.name}, run.part)
            continue
        counts: Counter[str] = Counter()
        for state, many in run.ranks:
            counts[state] += many
        for state, many in counts.items():
            yield sample(name, {"run": run.name, "state": state}, many)


def _of_row(name: str, row: SeriesRow) -> Iterator[str]:
    labels = {"callpath": row.callpath, "metric": row.metric} | {
        "unit": row.unit,
        "class": row.behaviour,
    }
    if name == "insitu_value":
        if row.points:
            yield sample(name, labels, row.points[-1][1])
    elif row.live is None:
        return
    elif name == "insitu_live_value":
        yield sample(name, labels, row.live)
    elif name == "insitu_live_slower":
        yield sample(name, labels, int(row.verdict == SLOWER))
    elif row.expected is not None:
        for bound, value in zip(("low", "value", "high"), row.expected, strict=True):
            yield sample(name, labels | {"bound": bound}, value)
