"""How long an iteration of the main loop takes in a rank, and how much that varies."""

from collections.abc import Iterable
from statistics import fmean, median, stdev
from typing import Any

from insitu.collectors.ranks import GaugeValues, Rank

MIN_ITERATIONS = 8  # fewer say too little about the noise


def iteration_gauges(rank: Rank) -> Iterable[GaugeValues]:
    """The median time of an iteration (s) and the coefficient of variation of the times.

    They belong to the call path that contains the main loop [DET §5.1.1]. Nothing is returned if
    no main loop was found.
    """
    loop_row = rank.table.header.loop_row
    ticks = rank.table.iteration_ticks()
    if len(ticks) < MIN_ITERATIONS or loop_row >= len(rank.node_rows) or not rank.tick_s:
        return []

    times_s = [count * rank.tick_s for count in ticks]
    mean_s = fmean(times_s)
    values = {
        "iteration_time": median(times_s),
        "iteration_variation": stdev(times_s) / mean_s if mean_s else 0.0,
    }
    return [(rank.number, rank.node_rows[loop_row], values)]


def describe_limit(ranks: Iterable[Rank], limit: int) -> list[tuple[str, str]]:
    """Code and text of the finding about `--iterations`, none without a limit.

    Args:
        ranks: those of the node.
        limit: iterations that suffice, 0 for all.
    """
    findings: list[tuple[str, str]] = []
    made = max((rank.table.header.iterations for rank in ranks), default=0)
    if limit and made >= limit:
        text = (
            f"the program could end its main loop after {limit} iterations, as --iterations says;"
            " compare it with runs of equally many"
        )
        findings.append(("iterations-limited", text))
    elif limit:
        text = (
            f"--iterations {limit} had no effect: the program marked {made} complete iterations;"
            " ask at the beginning of each with `if insitu.phase(step): break`, in C with"
            " `if (insitu_iteration()) break;`"
        )
        findings.append(("iterations-unlimited", text))
    return findings


def sample_iterations(ranks: Iterable[Rank]) -> dict[str, Any]:  # Any: JSON
    """A sample of one rank's iteration times, in order; {} if no rank has enough of them.

    It shows whether iterations become slower during a run.
    """
    for rank in ranks:
        ticks = rank.table.iteration_ticks()
        if len(ticks) >= MIN_ITERATIONS and rank.tick_s:
            times_s = [float(f"{count * rank.tick_s:.6g}") for count in ticks]
            n_iterations = rank.table.header.iterations + 1
            return {"rank": rank.number, "count": n_iterations, "times_s": times_s}
    return {}
