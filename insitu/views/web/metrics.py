"""A campaign as Prometheus asks for it: what is measured just now, beside what models say."""

from collections import Counter
from collections.abc import Iterator

from insitu.analysis.board import Board, SeriesRow
from insitu.analysis.forecast import SLOWER
from insitu.formats.openmetrics import END, family, model_lines, sample, state_lines
from insitu.modeling.base import ModelSet

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
KEPT = ("sealed", "partial", "omitted")
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
    """Boards and models of a campaign as OpenMetrics text; one thread uses it."""

    def __init__(self) -> None:
        self._models = ModelSet()
        self._of_models = ""  # what is told of them changes with them, and takes a while

    def text(self, board: Board, models: ModelSet, *, is_live: bool) -> str:
        """What there is to tell now."""
        if models is not self._models:
            self._models, self._of_models = models, "\n".join(model_lines(models))
        return "\n".join([*board_lines(board, is_live=is_live), self._of_models, END, ""])


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
