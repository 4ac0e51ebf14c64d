"""Estimates, and the predicted share of each call path in the cost where its model is reliable."""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from insitu.entities import TIME_EXCLUSIVE, CallPath, is_start_up

UNCLEAR_SHARE = 0.1  # of the cost, from which call paths without a prediction leave all unclear
RELEVANT = 0.01  # share of the cost below which the growth of a call path does not matter
TRUSTED, ROUGH = 0.25, 1.0  # half the width of an interval, relative to the value


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted value with its 95 % bounds, NaN where the modeler has none.

    is_by_mean: whether it is the mean over all ranks although their classes differ, because the
    sizes of these are unknown.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    is_by_mean: bool = False

    @property
    def doubt(self) -> float:
        """Half the width of the bounds relative to the value; NaN where it is unknown."""
        if self.high == math.inf:
            return math.inf
        width = (self.high - self.low) / 2
        if not self.value:
            return 0.0 if width == 0 else math.nan
        return width / abs(self.value)


@dataclass(frozen=True, slots=True)
class CostShare:
    """The share of a call path in the cost, 0 to 1: `now` as measured, `then` at the target.

    The bounds of `then` vary this call path within its interval while the others stay. It is NaN
    where the model is unreliable there; the call path is then left out of the total.
    """

    callpath: CallPath
    now: float
    then: Estimate

    @property
    def is_guess(self) -> bool:
        """Whether the share at the target is unknown."""
        return math.isnan(self.then.value)


def trust_level(estimate: Estimate) -> str:
    """How far an estimate is to be trusted: good, rough, a guess or unknown."""
    doubt = estimate.doubt
    if math.isnan(doubt):
        return "unknown"
    if doubt <= TRUSTED:
        return "good"
    return "rough" if doubt <= ROUGH else "a guess"


def predict_shares(
    costs: Mapping[CallPath, Estimate], cost: str, share: Mapping[CallPath, float]
) -> Iterator[CostShare]:
    """Shares at the target over all ranks, the largest first, then start-up, then unreliable ones.

    Exclusive times are shares of their sum, other metrics of the largest, which contains the rest.

    Args:
        costs: of each call path at the target.
        cost: name of the metric.
        share: measured shares at the largest scale.
    """
    unreliable = find_unreliable(costs, share)
    values = [estimate.value for path, estimate in costs.items() if path not in unreliable]
    is_sum = cost == TIME_EXCLUSIVE.name
    total = sum(values) if is_sum else max(values, default=0.0)
    descending = sorted(
        costs.items(), key=lambda item: (is_start_up(item[0]), -item[1].value, item[0])
    )

    for path, estimate in descending:
        if path in unreliable or total <= 0:
            continue
        others = total - estimate.value if is_sum else 0.0
        low, high = (
            bound / (bound + others) if is_sum and bound + others > 0 else min(bound / total, 1.0)
            for bound in (estimate.low, estimate.high)
        )
        then = Estimate(estimate.value / total, low, high, estimate.is_by_mean)
        yield CostShare(path, share.get(path, 0.0), then)

    for path, _ in descending:
        if path in unreliable:
            yield CostShare(path, share.get(path, 0.0), Estimate(math.nan))


def find_unclear_shares(
    shares: Sequence[CostShare], unclear: Container[CallPath], cost: str
) -> frozenset[CallPath]:
    """The call paths whose share is no prediction: all of them where it is unclear what dominates.

    Call paths without a predicted share are not in the total, of which the others are shares. They
    count as measured, except those of the start-up.

    Args:
        shares: of all call paths at the target.
        unclear: the call paths whose cost is no prediction there.
        cost: name of the metric; exclusive times add up, others contain each other.
    """
    without_cost = [share for share in shares if share.callpath in unclear]
    doubtful = [share.then.value for share in without_cost if not share.is_guess]
    doubtful += [
        share.now for share in shares if share.is_guess and not is_start_up(share.callpath)
    ]
    is_sum = cost == TIME_EXCLUSIVE.name
    weight = sum(doubtful) if is_sum else max(doubtful, default=0.0)
    return frozenset(
        share.callpath for share in (shares if weight >= UNCLEAR_SHARE else without_cost)
    )


def find_unreliable(
    costs: Mapping[CallPath, Estimate], now: Mapping[CallPath, float]
) -> set[CallPath]:
    """The call paths without a predicted share, which do not count in the total either.

    A call path is unreliable if its cost or upper bound is infinite, or if it is negligible now,
    its bounds span more than its value, and it might matter at the target: of many noisy call paths
    some always seem to grow steeply.

    Args:
        costs: at the target.
        now: measured shares at the largest scale.
    """
    endless, doubtful = set(), set()
    for path, estimate in costs.items():
        if not math.isfinite(estimate.value) or estimate.high == math.inf:
            endless.add(path)
        if now.get(path, 0.0) < RELEVANT and not estimate.doubt <= ROUGH:
            doubtful.add(path)

    known = costs.keys() - doubtful - endless
    rest = sum(estimate.value for path, estimate in costs.items() if path in known)
    return endless | {path for path in doubtful if _upper_bound(costs[path]) > RELEVANT * rest}


def _upper_bound(estimate: Estimate) -> float:
    return estimate.value if math.isnan(estimate.high) else estimate.high
