"""The sentences and table rows of a report, shared by its HTML and its Markdown form."""

import math
from collections import Counter
from collections.abc import Container, Iterator

from insitu.analysis.callpaths import last_frames
from insitu.analysis.cost import metric_order
from insitu.analysis.shares import RELEVANT, ROUGH, TRUSTED, CostShare, Estimate
from insitu.analysis.summary import DOUBTFUL_FACTOR, SeriesGrowth, Summary, coordinate_text
from insitu.campaign.selection import is_omitted
from insitu.design.proposals import Proposal, Proposals
from insitu.entities import TIME_EXCLUSIVE, CallPath, RunRecord, RunState, is_start_up
from insitu.modeling.back_test_report import describe_back_tests
from insitu.modeling.base import ALL, SeriesModel
from insitu.modeling.horizon import unclear_at
from insitu.units import percent, quantity, useful_bounds
from insitu.views.text import BY_MEAN, BY_MEAN_NOTE, STATES

NAME_WIDTH = 60
MAX_MISSING = 12  # missing ranks that are listed
VIOLATED = "✘"
TRUST_LEVELS = ("good", "rough", "a guess", "crowded", "unknown")
CROWDED_GROWTH = (
    "Not judged: ranks had to wait for a core, so that times contain this waiting. Counts,"
    " bytes and memory do not."
)
CROWDED_PROPOSALS = (
    "Ranks had to wait for a core: further runs on the same cores say more about counts, bytes"
    " and memory, and nothing about times."
)
NEARLY_ALL = 0.995  # a share above this is not printed: the proposal is about one call path


def subtitle(summary: Summary) -> str:
    """How many runs there are, up to which scale, and the target of the predictions."""
    count = len(summary.runs)
    text = f"{count} run{'s' * (count != 1)} up to"
    text += f" {coordinate_text(summary.parameters, summary.largest)}"
    if not summary.series:
        return text
    target = coordinate_text(summary.parameters, summary.target)
    factor = format_ratio(summary.extrapolation_factor)
    return f"{text}; predictions for {target}, {factor} times the largest measured scale"


def headlines(summary: Summary) -> Iterator[str]:
    """The findings of the report in one sentence each, the most important ones first."""
    if has_crowded_cost(summary):
        yield (
            f"No prediction of {summary.cost}: ranks had to wait for a core, so that times contain"
            " this waiting."
        )
    else:
        yield from _dominating_sentences(summary)
    yield from _growth_sentences(summary)
    yield from _partition_sentences(summary)
    yield from _expectation_sentences(summary)
    yield from _proposal_sentences(summary)
    if summary.series and not has_crowded_cost(summary):
        yield _trust_sentence(summary)
        yield from _back_test_sentences(summary)
    if summary.findings:
        kinds = len({finding.code for finding in summary.findings})
        yield f"Findings of {kinds} kind{'s' * (kinds != 1)}: see below."


def has_crowded_cost(summary: Summary) -> bool:
    """Whether the cost contains waiting for a core, so that it is not predicted."""
    costs = (growth.series for growth in summary.series if growth.series.key.metric == summary.cost)
    return any(series.crowding for series in costs)


def _back_test_sentences(summary: Summary) -> Iterator[str]:
    """How far models without the largest scale missed it, of the metric that is the cost."""
    sentences = describe_back_tests([growth.series for growth in summary.series])
    if summary.cost in sentences:
        yield f"Tested on the largest scale, {sentences[summary.cost]}."


def _dominating_sentences(summary: Summary) -> Iterator[str]:
    """What dominates the cost at the target, and what the shares leave out."""
    target = coordinate_text(summary.parameters, summary.target)
    first = next((share for share in summary.shares if not share.is_guess), None)
    if first is not None and first.callpath in summary.unclear_shares:
        doubtful = [
            share for share in summary.shares if share.is_guess or share.callpath in summary.unclear
        ]
        path = max(doubtful, key=lambda share: share.now).callpath
        reason = summary.unclear.get(path, "a guess")
        count = len(doubtful) - 1
        others = f" and {count} other{'s' * (count != 1)}" if count else ""
        yield (
            f"What dominates at {target} is unclear, for the cost of {_name(path)}{others} is no "
            f"prediction there ({reason})."
        )
    elif first is not None and (first := _find_dominating(summary, first)) is not None:
        bound = f"{percent(first.then.low)} to {percent(first.then.high)}"
        yield (
            f"At {target}, {_name(first.callpath)} will take {percent(first.then.value)} of "
            f"{summary.cost} (95 % interval: {bound}); it takes {percent(first.now)} now."
        )

    guesses = sum(share.is_guess for share in summary.shares)
    if guesses:
        models = (
            "model of 1 call path is" if guesses == 1 else f"models of {guesses} call paths are"
        )
        yield f"The {models} only a guess there and not part of the shares."

    n_by_mean = sum(share.then.is_by_mean for share in summary.shares)
    if n_by_mean:
        paths = "1 call path" if n_by_mean == 1 else f"{n_by_mean} call paths"
        yield f"{BY_MEAN} marks the share of {paths} there that is estimated {BY_MEAN_NOTE}."

    unmodelled = sum(summary.rest.values())
    if unmodelled >= RELEVANT:
        path = next(iter(summary.rest))
        yield (
            f"{percent(unmodelled)} of the time is in call paths without a model, most of it in "
            f"{_name(path)}; the shares at the target do not include it."
        )


def _find_dominating(summary: Summary, largest: CostShare) -> CostShare | None:
    """The call path that dominates the cost at the target; None if no share says that.

    Inclusive times contain each other: not the root and what else takes all of it because it calls
    the others, and not a function of which another one takes nearly all.
    """
    if summary.cost == TIME_EXCLUSIVE.name:
        return largest
    known = [share for share in summary.shares if not share.is_guess]
    found = largest
    while True:
        called = [share for share in known if share.callpath.frames[:-1] == found.callpath.frames]
        callee = max(called, key=lambda share: share.then.value, default=None)
        if callee is None:
            return None if len(found.callpath.frames) == 1 else found
        is_all = found.then.value >= NEARLY_ALL
        if not is_all and callee.then.value < NEARLY_ALL * found.then.value:
            return found
        found = callee


def _growth_sentences(summary: Summary) -> Iterator[str]:
    if has_crowded_cost(summary):
        pass  # neither growth nor its absence is known
    elif summary.growing:
        yield f"The fastest growth: {_growth_text(summary.growing[0], summary)}."
    elif summary.shares:
        yield "No call path that matters for the cost is certain to grow."
    for growth in summary.others:
        if not is_start_up(growth.series.key.callpath) and not unclear_growth(growth, summary):
            yield f"Among counts, bytes and memory: {_growth_text(growth, summary)}."
            break


def _partition_sentences(summary: Summary) -> Iterator[str]:
    if not summary.partitions:
        return
    first = summary.partitions[0]
    sizes = ", ".join(f"{line.ranks} {line.name}" for line in first.classes)
    count = len(summary.partitions)
    yield (
        f"Ranks behave differently in {count} call path{'s' * (count != 1)}; the most expensive "
        f"one is {_name(first.callpath)}: {sizes}."
    )


def _expectation_sentences(summary: Summary) -> Iterator[str]:
    """How many expectations are violated, and the first of them."""
    violated = [line for line in summary.expectations if line.mark == VIOLATED]
    if violated:
        count, first = len(violated), violated[0]
        verb = "are" if count > 1 else "is"
        lead = ", first" if count > 1 else ""
        yield (
            f"{count} of {len(summary.expectations)} expectations {verb} violated{lead}: "
            f"{_name(first.subject)}, {first.expected}: {first.text}."
        )
    elif summary.expectations:
        yield f"None of {len(summary.expectations)} expectations is violated."


def _proposal_sentences(summary: Summary) -> Iterator[str]:
    """The run to make next."""
    proposals = summary.proposals
    if proposals is None or not proposals.runs:
        return

    first = proposals.runs[0]
    if has_crowded_cost(summary) and not first.reason:
        return  # more ranks on the same cores say no more about times
    cost = ""
    if not math.isnan(first.seconds):
        cost = f" (about {format_span(first.core_seconds)} on all ranks)"

    gain = ""
    if not math.isnan(first.uncertainty) and not proposals.unclear:
        gain = (
            f" should reduce the uncertainty of the run time from "
            f"{percent(proposals.uncertainty)} to {percent(first.uncertainty)}, and"
        )
        gain += "" if first.reason else " it"

    # A reason is a clause with a subject of its own, the others are about the run.
    subject = "" if first.reason and not gain else f"it{gain} "
    yield f"Measure {first.point} next{cost}: {subject}{describe_proposal(first)}."


def _trust_sentence(summary: Summary) -> str:
    """How many models of the cost have narrow intervals at the target."""
    series = [item for item in summary.series if item.series.key.metric == summary.cost]
    narrow = [item for item in series if item.then.doubt <= TRUSTED]
    text = (
        f"{len(narrow)} of {len(series)} models of {summary.cost} have an interval within "
        f"±{percent(TRUSTED)} there"
    )
    if summary.extrapolation_factor > DOUBTFUL_FACTOR:
        text += f"; the target is more than {DOUBTFUL_FACTOR:g} times the largest measured scale"
    return f"{text}."


def describe_proposal(proposal: Proposal) -> str:
    """What a run would reveal, as the end of a sentence."""
    if proposal.reason:
        return proposal.reason
    if not proposal.callpath:
        names = [name for name, _ in proposal.point.values]
        if len(names) == 1:
            return f"has a value of {names[0]} that was not measured"
        return "differs from the existing runs in every parameter"
    share = f" ({percent(proposal.share)} of it)" if proposal.share < NEARLY_ALL else ""
    return f"reveals most about {_name(proposal.callpath)}{share}"


def proposals_lead(summary: Summary, proposals: Proposals) -> str:
    """The paragraph above the table of proposed runs."""
    if has_crowded_cost(summary):
        helpful = summary.diagnosis.next_run if summary.diagnosis is not None else None
        run = f" The run that helps most: {helpful}." if helpful else ""
        return f"{CROWDED_PROPOSALS}{run}"
    if math.isnan(proposals.uncertainty):
        return (
            "What a run would reveal is unknown until more runs are measured. These values were not"
            " measured yet."
        )

    text = (
        f"The run time at {proposals.target} is {proposals.unclear}"
        if proposals.unclear
        else f"The uncertainty of the run time at {proposals.target} is "
        f"{percent(proposals.uncertainty)}, given all growth laws that the measured runs allow"
    )
    if proposals.is_enough:
        return f"{text}. No further run is needed."
    if proposals.is_exhausted:
        return f"{text}. All runs in campaign.toml have been made: add levels there."

    use = "reveals most" if proposals.unclear else "reduces it most"
    return (
        f"{text}. Each run below {use} for its core time, assuming that the runs above "
        "it have been made. `insitu advise` computes this for other targets."
    )


def proposal_rows(summary: Summary, proposals: Proposals) -> Iterator[tuple[str, ...]]:
    """Rows of proposed runs: coordinate, run time, core time, uncertainty afterwards, reason.

    Where ranks shared cores, only of runs with a reason apart from the time.
    """
    is_crowded = has_crowded_cost(summary)
    for proposal in proposals.runs:
        if is_crowded and not proposal.reason:
            continue
        uncertainty = math.nan if proposals.unclear else proposal.uncertainty
        yield (
            str(proposal.point),
            format_span(proposal.seconds),
            format_span(proposal.core_seconds),
            "–" if math.isnan(uncertainty) else percent(uncertainty),
            describe_proposal(proposal),
        )


def format_span(seconds: float) -> str:
    """A time that may be long: `40 s`, `25 min`, `3.2 h`."""
    if math.isnan(seconds):
        return "–"
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return quantity(seconds, "s")


def trust_rows(summary: Summary) -> Iterator[tuple[str, ...]]:
    """Rows of metrics: the number of models at each trust level at the target."""
    counts: dict[str, Counter[str]] = {}
    for item in summary.series:
        counts.setdefault(item.series.key.metric, Counter())[item.trust] += 1

    for name in sorted(counts, key=lambda name: (metric_order(name), name)):
        yield (name, *(str(counts[name][level] or "–") for level in TRUST_LEVELS))


def trust_reasons(summary: Summary) -> Iterator[str]:
    """What limits the trust in the predictions, in one sentence each."""
    yield (
        f"Good: the 95 % interval at the target is within ±{percent(TRUSTED)}. Rough: within "
        f"±{percent(ROUGH)}. A guess: wider. Unknown: the modeler gives no interval."
    )
    yield _repetition_sentence(summary)

    if summary.extrapolation_factor > DOUBTFUL_FACTOR:
        factor = format_ratio(summary.extrapolation_factor)
        yield (
            f"The target is {factor} times the largest measured scale. Intervals are reliable up "
            f"to {DOUBTFUL_FACTOR:g} times; beyond that, growth may change in a way that no "
            "measurement shows."
        )

    crowded = [finding for finding in summary.findings if finding.code == "ranks-crowded"]
    if crowded:
        yield f"{_sentence(crowded[0].text)} Use as many free cores as ranks to measure times."

    doubtful = [finding for finding in summary.findings if finding.code == "growth-uncertain"]
    if doubtful:
        yield (
            f"For {len(doubtful)} models several functions fit equally well (see the findings); "
            "their intervals cover all of them."
        )


def _repetition_sentence(summary: Summary) -> str:
    """How many configurations were measured, and how many of them repeatedly."""
    repetitions = Counter(
        run.key.parameters
        for run in summary.runs
        if run.state is RunState.COMPLETE and not is_omitted(run)
    )
    count = len(repetitions)
    repeated = sum(n_runs > 1 for n_runs in repetitions.values())
    if repeated:
        tail = f"{repeated} of them more than once"
    else:
        tail = (
            "none of them twice. The noise is therefore only estimated from the distance of the "
            "points to smooth functions: repeat a run or two"
        )

    what = "1 configuration was" if count == 1 else f"{count} configurations were"
    return f"{what} measured, {tail}."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def listed_shares(summary: Summary) -> tuple[CostShare, ...]:
    """The shares at the target, of which none is predicted where ranks shared cores."""
    return () if has_crowded_cost(summary) else summary.shares


def predicted_share(share: CostShare, unclear_shares: Container[CallPath]) -> tuple[str, str]:
    """The share of a call path at the target and its bounds; no bounds if it is a guess."""
    if share.is_guess:
        return "a guess", "–"
    if share.callpath in unclear_shares:
        return "unclear", "–"
    then = share.then
    value = f"{BY_MEAN} {percent(then.value)}" if then.is_by_mean else percent(then.value)
    return value, f"{percent(then.low)} … {percent(then.high)}"


def format_bounds(estimate: Estimate, unit: str) -> str:
    """`1.2 s … 3.4 s`, or a dash without a useful interval."""
    low, high = useful_bounds(estimate.low, estimate.high)
    if math.isnan(low) or math.isnan(high):
        return "–"
    return f"{quantity(low, unit)} … {quantity(high, unit)}"


def format_ratio(value: float) -> str:
    """A ratio with three significant digits; whole from 1,000 to a million."""
    if math.isinf(value):
        return "∞"
    return f"{value:,.0f}" if 1000 <= value < 1e6 else f"{value:.3g}"


def format_rank_count(count: float) -> str:
    """A predicted number of ranks."""
    return "–" if math.isnan(count) else f"{round(max(count, 0.0)):,}"


def describe_state(run: RunRecord) -> str:
    """The state of a run; of an incomplete run also its missing ranks."""
    if is_omitted(run):
        return "omitted"
    word = STATES.get(run.state, run.state.value)
    if run.state is not RunState.INCOMPLETE:
        return word
    return f"{word}; missing: {', '.join(map(str, run.missing[:MAX_MISSING]))}"


def _growth_text(growth: SeriesGrowth, summary: Summary) -> str:
    """A series with its model, its values now and at the target, and how sure that is."""
    key, unit = growth.series.key, growth.series.metric.unit
    ranks = _ranks_text(growth.series)
    now, then = quantity(growth.now, unit), quantity(growth.then.value, unit)
    beyond = unclear_growth(growth, summary)
    change = f"to {then} (× {format_ratio(growth.factor)}; " if not beyond else f"on, {beyond} ("
    return (
        f"{key.metric} of {_name(key.callpath)}{ranks}, {growth.series.text}: from {now} {change}"
        f"95 % interval: {format_bounds(growth.then, unit)}; trust: {growth.trust})"
    )


def unclear_growth(growth: SeriesGrowth, summary: Summary) -> str:
    """`unclear beyond p=256` where a model predicts nothing at the target, otherwise nothing."""
    return unclear_at(growth.series.model, summary.target, (growth.then.low, growth.then.high))


def target_value(growth: SeriesGrowth) -> str:
    """The value at the target, marked if the mean over ranks estimates it."""
    value = quantity(growth.then.value, growth.series.metric.unit)
    return f"{BY_MEAN} {value}" if growth.series.has_mean_law else value


def predicted_value(growth: SeriesGrowth, summary: Summary) -> str:
    """The value at the target, or beyond which scale it is unclear."""
    return unclear_growth(growth, summary) or target_value(growth)


def growth_factor(growth: SeriesGrowth, summary: Summary) -> str:
    """`× 4.2`, the value at the target over that now; a dash where it is unclear."""
    return "–" if unclear_growth(growth, summary) else f"× {format_ratio(growth.factor)}"


def _ranks_text(series: SeriesModel) -> str:
    """Which ranks a series describes: nothing for all ranks, ` (rank 0 only)`."""
    if series.key.behaviour == ALL:
        return "" if series.class_text == ALL else f" ({series.class_text})"
    return f" (ranks of class {series.key.behaviour})"


def _name(callpath: object) -> str:
    return last_frames(str(callpath), NAME_WIDTH)
