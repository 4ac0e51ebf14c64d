"""A summary in sentences."""

import math
from collections.abc import Iterator

from insitu.entities import RunRecord, RunState
from insitu.monitor.names import last_frames
from insitu.monitor.summary import TRUSTED, Estimate, Growth, Summary, place_of, trust
from insitu.units import percent, quantity

NAME_WIDTH = 60
FAR = 4.0  # times the largest measured scale, beyond which predictions are to be doubted


def headlines(summary: Summary) -> Iterator[str]:
    """What a person must know who reads nothing else, a sentence each."""
    target = place_of(summary.parameters, summary.target)
    if summary.parts:
        first = summary.parts[0]
        bound = f"{percent(first.then.low)} to {percent(first.then.high)}"
        yield (
            f"At {target} {_name(first.callpath)} will take {percent(first.then.value)} of "
            f"{summary.cost} ({bound} at 95 %); it takes {percent(first.now)} now."
        )
    if summary.growing:
        yield f"Fastest grows {_growth(summary.growing[0])}."
    elif summary.parts:
        yield "Nothing that matters for the cost is sure to grow."
    if summary.others:
        yield f"Of counts, bytes and memory: {_growth(summary.others[0])}."
    if summary.partings:
        one = summary.partings[0]
        names = ", ".join(f"{line.ranks} {line.name}" for line in one.classes)
        yield (
            f"Ranks differ on {len(summary.partings)} call path"
            f"{'s' * (len(summary.partings) != 1)}; the dearest is {_name(one.callpath)}: {names}."
        )
    broken = [one for one in summary.judged if one.mark == "✘"]
    if broken:
        yield f"{len(broken)} of {len(summary.judged)} expectations are violated."
    elif summary.judged:
        yield f"None of {len(summary.judged)} expectations is violated."
    yield from _trusted(summary)
    if summary.findings:
        many = len(summary.findings)
        yield f"{many} finding{'s' * (many != 1)} to read below."


def _trusted(summary: Summary) -> Iterator[str]:
    """How far all this is to be trusted, and what would tell more."""
    cost = [one for one in summary.series if one.series.key.metric == summary.cost]
    known = [one for one in cost if one.then.doubt <= TRUSTED]
    words = f"{len(known)} of {len(cost)} models of {summary.cost} are known to within "
    far = "" if summary.farness <= FAR else f"; beyond {FAR:g} times what was measured is far"
    yield f"{words}±{percent(TRUSTED)} there{far}."
    doubtful = [one for one in cost if one.then.doubt > TRUSTED and not math.isnan(one.then.doubt)]
    if doubtful:
        widest = max(doubtful, key=lambda one: one.then.high - one.then.low)
        name = _name(widest.series.key.callpath)
        yield (
            f"Least is known of {name} (between {bounds(widest.then, widest.series.metric.unit)}): "
            "a run at a larger scale tells most about it; insitu advise says which."
        )


def bounds(found: Estimate, unit: str) -> str:
    """`1.2 s … 3.4 s`, a dash where nothing is known."""
    if math.isnan(found.low) or math.isnan(found.high):
        return "–"
    return f"{quantity(found.low, unit)} … {quantity(found.high, unit)}"


def factor(value: float) -> str:
    """How many times, in three digits."""
    return "∞" if math.isinf(value) else f"{value:.3g}"


def ranks_told(count: float) -> str:
    """A predicted number of ranks."""
    return "–" if math.isnan(count) else f"{round(max(count, 0.0)):,}"


def state_of(run: RunRecord) -> str:
    """The state of a run, and which ranks are missing."""
    if run.state is not RunState.PARTIAL:
        return run.state.value
    return f"partial; missing: {', '.join(map(str, run.missing[:12]))}"


def _growth(one: Growth) -> str:
    key, unit = one.series.key, one.series.metric.unit
    return (
        f"{key.metric} of {_name(key.callpath)}"
        f"{'' if key.behaviour == 'all' else f' (ranks of class {key.behaviour})'}, "
        f"{one.series.model}: from {quantity(one.now.value, unit)} to "
        f"{quantity(one.then.value, unit)} (× {factor(one.factor)}; 95 %: "
        f"{bounds(one.then, unit)}; trust: {trust(one.then)})"
    )


def _name(callpath: object) -> str:
    return last_frames(str(callpath), NAME_WIDTH)
