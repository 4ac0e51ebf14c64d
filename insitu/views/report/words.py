"""A summary in sentences."""

import math
from collections import Counter
from collections.abc import Iterator

from insitu.analysis.callpaths import last_frames
from insitu.analysis.cost import metric_order
from insitu.analysis.shares import RELEVANT, ROUGH, TRUSTED, CostShare, Estimate, trust_level
from insitu.analysis.summary import DOUBTFUL_FACTOR, SeriesGrowth, Summary, coordinate_text
from insitu.campaign.selection import is_omitted
from insitu.design.proposals import Proposal, Proposals
from insitu.entities import RunRecord, RunState, number
from insitu.units import percent, quantity

NAME_WIDTH = 60
BROKEN = "✘"
TRUST = ("good", "rough", "a guess", "unknown")
ALL_OF_IT = 0.995


def headlines(summary: Summary) -> Iterator[str]:
    """What a person must know who reads nothing else, a sentence each."""
    target = coordinate_text(summary.parameters, summary.target)
    first = next((part for part in summary.shares if not part.is_guess), None)
    if first is not None:
        bound = f"{percent(first.then.low)} to {percent(first.then.high)}"
        yield (
            f"At {target} {_name(first.callpath)} will take {percent(first.then.value)} of "
            f"{summary.cost} ({bound} at 95 %); it takes {percent(first.now)} now."
        )
    left_out = sum(part.is_guess for part in summary.shares)
    if left_out:
        yield (
            f"Of {left_out} call path{'s' * (left_out != 1)} the model is only a guess there: "
            "no share counts it."
        )
    if sum(summary.rest.values()) >= RELEVANT:
        path = next(iter(summary.rest))
        yield (
            f"{percent(sum(summary.rest.values()))} of the time is in call paths without a model, "
            f"most of it in {_name(path)}: they are in no share there."
        )
    if summary.growing:
        yield f"Fastest grows {_growth(summary.growing[0])}."
    elif summary.shares:
        yield "Nothing that matters for the cost is sure to grow."
    if summary.others:
        yield f"Of counts, bytes and memory: {_growth(summary.others[0])}."
    if summary.partitions:
        one = summary.partitions[0]
        names = ", ".join(f"{line.ranks} {line.name}" for line in one.classes)
        yield (
            f"Ranks differ on {len(summary.partitions)} call path"
            f"{'s' * (len(summary.partitions) != 1)}; the costliest is {_name(one.callpath)}: "
            f"{names}."
        )
    yield from _broken(summary)
    yield from _next(summary)
    yield from _trusted(summary)
    if summary.findings:
        many = len(summary.findings)
        yield f"{many} finding{'s' * (many != 1)} to read below."


def _trusted(summary: Summary) -> Iterator[str]:
    """How far all this is to be trusted, and what would tell more."""
    cost = [one for one in summary.series if one.series.key.metric == summary.cost]
    known = [one for one in cost if one.then.doubt <= TRUSTED]
    words = f"{len(known)} of {len(cost)} models of {summary.cost} are known to within "
    far = (
        ""
        if summary.extrapolation_factor <= DOUBTFUL_FACTOR
        else f"; beyond {DOUBTFUL_FACTOR:g} times what was measured is far"
    )
    yield f"{words}±{percent(TRUSTED)} there{far}."


def _broken(summary: Summary) -> Iterator[str]:
    """How many expectations are violated, and the first of them."""
    broken = [one for one in summary.expectations if one.mark == BROKEN]
    if broken:
        many, first = len(broken), broken[0]
        yield (
            f"{many} of {len(summary.expectations)} expectations "
            f"{'are' if many > 1 else 'is'} violated"
            f"{', first' if many > 1 else ''}: {_name(first.subject)}, {first.expected}: "
            f"{first.text}."
        )
    elif summary.expectations:
        yield f"None of {len(summary.expectations)} expectations is violated."


def _next(summary: Summary) -> Iterator[str]:
    """The first run to make."""
    found = summary.proposals
    if found is None or not found.runs:
        return
    first = found.runs[0]
    takes = "" if math.isnan(first.seconds) else f" (about {span(first.core_seconds)} on all ranks)"
    lowers = (
        ""
        if math.isnan(first.uncertainty)
        else f" should lower the uncertainty of the run time from {percent(found.uncertainty)} to "
        f"{percent(first.uncertainty)}, and"
    )
    yield f"Measure {first.point} next{takes}: that{lowers} {why(first)}."


def why(one: Proposal) -> str:
    """What a run tells, in words."""
    if not one.callpath:
        return "differs in everything from the runs so far"
    share = f" ({percent(one.share)} of it)" if one.share < ALL_OF_IT else ""
    return f"tells most about {_name(one.callpath)}{share}"


def next_lead(found: Proposals) -> str:
    """What is said above the runs to make."""
    if math.isnan(found.uncertainty):
        return "First runs that differ in everything; each further one is then chosen by them."
    told = (
        f"The run time at {found.target} is uncertain by {percent(found.uncertainty)}, by laws of "
        "each call path that the runs so far allow"
    )
    if found.is_enough:
        return f"{told}: no further run is needed for that."
    if found.is_exhausted:
        return f"{told}. All runs of campaign.toml were made: add levels there."
    return (
        f"{told}. Each of these runs lowers that most for its core time, as if those above it had "
        "been made already; insitu advise says the same, for other scales too."
    )


def next_rows(found: Proposals) -> Iterator[tuple[str, ...]]:
    """The runs to make: what, how long, core time, the uncertainty then, why."""
    for one in found.runs:
        yield (
            str(one.point),
            span(one.seconds),
            span(one.core_seconds),
            "–" if math.isnan(one.uncertainty) else percent(one.uncertainty),
            why(one),
        )


def span(seconds: float) -> str:
    """A time that may be long: `40 s`, `25 min`, `3.2 h`."""
    if math.isnan(seconds):
        return "–"
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return quantity(seconds, "s")


def trust_rows(summary: Summary) -> Iterator[tuple[str, ...]]:
    """Per metric, the costliest first: how many of its models are trusted how far at the target."""
    counts: dict[str, Counter[str]] = {}
    for one in summary.series:
        counts.setdefault(one.series.key.metric, Counter())[trust_level(one.then)] += 1
    for name in sorted(counts, key=lambda name: (metric_order(name), name)):
        yield (name, *(str(counts[name][word] or "–") for word in TRUST))


def trust_reasons(summary: Summary) -> Iterator[str]:
    """What the trust rests on, a sentence each."""
    yield (
        f"Good is known to within ±{percent(TRUSTED)} at the target, rough to within "
        f"±{percent(ROUGH)}, a guess less; nothing is said where a modeler knows no bounds."
    )
    sealed = Counter(
        run.key.parameters for run in summary.runs if state_of(run) == RunState.COMPLETE
    )
    many = len(sealed)
    again = sum(count > 1 for count in sealed.values())
    repeated = (
        f"{again} of them more than once"
        if again
        else "none of them twice, so that noise is only "
        "guessed from how far points lie off smooth functions: repeat a run or two"
    )
    yield f"Measured were {many} configuration{'s' * (many != 1)}, {repeated}."
    if summary.extrapolation_factor > DOUBTFUL_FACTOR:
        yield (
            f"The target is {number(round(summary.extrapolation_factor, 1))} times the largest "
            f"measured scale; up to {DOUBTFUL_FACTOR:g} times bounds hold as said, "
            "further out laws may change that nobody saw."
        )
    crowded = [one for one in summary.findings if one.code == "ranks-crowded"]
    if crowded:
        yield f"{_sentence(crowded[0].text)} Run on as many cores as ranks for times to count."
    doubtful = [one for one in summary.findings if one.code == "growth-uncertain"]
    if doubtful:
        yield (
            f"Of {len(doubtful)} models it is open which function holds (findings below); their "
            "bounds allow for all of them."
        )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def share_then(part: CostShare) -> tuple[str, str]:
    """The share of a call path at the target and its bounds; none where that is a guess."""
    if part.is_guess:
        return "a guess", "–"
    then = part.then
    return percent(then.value), f"{percent(then.low)} … {percent(then.high)}"


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
    if is_omitted(run):
        return "omitted"
    if run.state is not RunState.INCOMPLETE:
        return run.state.value
    return f"partial; missing: {', '.join(map(str, run.missing[:12]))}"


def _growth(one: SeriesGrowth) -> str:
    key, unit = one.series.key, one.series.metric.unit
    return (
        f"{key.metric} of {_name(key.callpath)}"
        f"{'' if key.behaviour == 'all' else f' (ranks of class {key.behaviour})'}, "
        f"{one.series.model}: from {quantity(one.now.value, unit)} to "
        f"{quantity(one.then.value, unit)} (× {factor(one.factor)}; 95 %: "
        f"{bounds(one.then, unit)}; trust: {trust_level(one.then)})"
    )


def _name(callpath: object) -> str:
    return last_frames(str(callpath), NAME_WIDTH)
