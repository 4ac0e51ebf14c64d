"""How a run in progress came here: ranks, progress and memory over time."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from insitu.analysis.board import RunRow

MAX_SAMPLES = 121  # of a run, odd; a picture on the page has no room for more

Sample = tuple[float, int, int, float | None, float | None]


@dataclass(slots=True)
class RunHistory:
    """Samples of a run: seconds since its start, ranks seen and ended, progress, memory per rank.

    stride: only every so many boards are stored, so that the samples stay evenly spaced.
    """

    samples: list[Sample] = field(default_factory=list)
    stride: int = 1
    n_boards: int = 0

    def add(self, sample: Sample) -> None:
        """Store a sample, unless it lies between two stored ones; the newest is always kept."""
        is_last_between = self.n_boards > 0 and (self.n_boards - 1) % self.stride != 0
        if is_last_between:
            self.samples.pop()
        self.samples.append(sample)
        self.n_boards += 1

        is_between = (self.n_boards - 1) % self.stride != 0
        if len(self.samples) == MAX_SAMPLES and not is_between:
            self.samples = self.samples[::2]  # an odd number: the newest remains
            self.stride *= 2


class History:
    """The histories of the runs in progress; those of other runs are forgotten."""

    def __init__(self) -> None:
        self._runs: dict[str, RunHistory] = {}

    def add(self, runs: Iterable[RunRow], now_s: float) -> None:
        """Store where the runs in progress are.

        Args:
            runs: those in progress.
            now_s: seconds since 1970.
        """
        runs = list(runs)
        self._runs = {run.id: self._runs.get(run.id, RunHistory()) for run in runs}
        for run in runs:
            seconds = max(now_s - run.started_at, 0.0) if run.started_at else 0.0
            self._runs[run.id].add((seconds, run.seen, run.ended, run.part, run.memory))

    def samples(self, run_id: str) -> list[Sample]:
        """The samples of a run, the oldest first."""
        history = self._runs.get(run_id)
        return [] if history is None else history.samples
