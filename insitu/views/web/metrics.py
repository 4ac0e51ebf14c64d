"""The campaign as Prometheus metrics: live values of runs in progress beside the models."""

from collections import Counter
from collections.abc import Iterator

from insitu.analysis.board import Board, SeriesRow
from insitu.analysis.forecast import SLOWER
from insitu.formats.openmetrics import END, family_lines, format_sample, model_lines, state_lines
from insitu.modeling.base import ModelSet

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
FINISHED_STATES = ("sealed", "partial", "omitted")  # runs that no longer change
# Metric families of live values: unit ("" for none) and help text.
FAMILIES = {
    "insitu_live": ("", "Whether a run is in progress."),
    "insitu_run_ranks": ("", "Ranks of runs in progress, by state."),
    "insitu_run_progress_ratio": ("ratio", "Progress of a run, by the visits that models predict."),
    "insitu_share_ratio": ("ratio", "Share of a call path in the cost at the largest scale."),
    "insitu_value": ("", "Newest measured value per rank, at the largest scale."),
    "insitu_live_value": ("", "Value per rank so far in the run in progress."),
    "insitu_live_expected": ("", "Value so far that models of other runs predict."),
    "insitu_live_slower": ("", "1 if a call path is slower than its models allow."),
}


class Metrics:
    """Boards and models of a campaign as OpenMetrics text. One thread uses it."""

    def __init__(self) -> None:
        self._models = ModelSet()
        self._model_text = ""  # cached: it takes long and changes only with the models

    def text(self, board: Board, models: ModelSet, *, is_live: bool) -> str:
        """The complete OpenMetrics text."""
        if models is not self._models:
            self._models, self._model_text = models, "\n".join(model_lines(models))
        return "\n".join([*board_lines(board, is_live=is_live), self._model_text, END, ""])


def board_lines(board: Board, *, is_live: bool) -> Iterator[str]:
    """The lines about runs, findings and live values."""
    yield from state_lines(Counter(run.state for run in board.runs), board.findings)

    for name, (unit, help_text) in FAMILIES.items():
        yield from family_lines(name, unit, help_text)

        if name == "insitu_live":
            has_run = any(run.state not in FINISHED_STATES for run in board.runs)
            yield format_sample(name, {}, int(is_live and has_run))
        elif name.startswith("insitu_run_"):
            yield from _run_lines(name, board)
        elif name == "insitu_share_ratio":
            shares = {row.callpath: row.share for row in board.series}
            for path, share in shares.items():
                yield format_sample(name, {"callpath": path}, share)
        else:
            for row in board.series:
                yield from _row_lines(name, row)


def _run_lines(name: str, board: Board) -> Iterator[str]:
    for run in board.runs:
        if run.state in FINISHED_STATES:
            continue

        if name == "insitu_run_progress_ratio":
            if run.part is not None:
                yield format_sample(name, {"run": run.name}, run.part)
            continue

        counts: Counter[str] = Counter()
        for state, n_ranks in run.ranks:
            counts[state] += n_ranks
        for state, n_ranks in counts.items():
            yield format_sample(name, {"run": run.name, "state": state}, n_ranks)


def _row_lines(name: str, row: SeriesRow) -> Iterator[str]:
    labels = {
        "callpath": row.callpath,
        "metric": row.metric,
        "unit": row.unit,
        "class": row.behaviour,
    }
    if name == "insitu_value":
        if row.points:
            yield format_sample(name, labels, row.points[-1][1])
    elif row.live is None:
        return
    elif name == "insitu_live_value":
        yield format_sample(name, labels, row.live)
    elif name == "insitu_live_slower":
        yield format_sample(name, labels, int(row.verdict == SLOWER))
    elif row.expected is not None:
        for bound, value in zip(("low", "value", "high"), row.expected, strict=True):
            yield format_sample(name, labels | {"bound": bound}, value)
