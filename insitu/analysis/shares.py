"""The share of each call path in the cost at a place, as far as its model is more than a guess."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from insitu.entities import TIME_EXCLUSIVE, CallPath

RELEVANT = 0.01  # a share below which growth of the cost does not matter
TRUSTED, ROUGH = 0.25, 1.0  # half the width of an interval, relative to the value


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted value with its 95 % bounds, NaN where a modeler knows none."""

    value: float
    low: float = math.nan
    high: float = math.nan

    @property
    def doubt(self) -> float:
        """Half the width of the bounds relative to the value; NaN where not known."""
        if self.high == math.inf:
            return math.inf
        width = (self.high - self.low) / 2
        return width / abs(self.value) if self.value else (0.0 if width == 0 else math.nan)


@dataclass(frozen=True, slots=True)
class CostShare:
    """The share of a call path in the cost, 0 to 1: measured, and at the target.

    The bounds of `then` move this call path within its interval while the others stay. It is NaN
    where the model is only a guess there: the call path is left out of the sum.
    """

    callpath: CallPath
    now: float
    then: Estimate

    @property
    def is_guess(self) -> bool:
        """Whether the share at the target is left open."""
        return math.isnan(self.then.value)


def trust_level(estimate: Estimate) -> str:
    """How far an estimate is to be trusted, in one word."""
    doubt = estimate.doubt
    if math.isnan(doubt):
        return "unknown"
    return "good" if doubt <= TRUSTED else "rough" if doubt <= ROUGH else "a guess"


def predict_shares(
    costs: Mapping[CallPath, Estimate], cost: str, share: Mapping[CallPath, float]
) -> Iterator[CostShare]:
    """Shares at the target over all ranks, the largest first; what is only a guess comes last.

    Exclusive times are shares of their sum, other metrics of the largest, which holds the others.
    """
    left_out = find_unreliable(costs, share)
    values = [found.value for path, found in costs.items() if path not in left_out]
    is_sum = cost == TIME_EXCLUSIVE.name
    total = sum(values) if is_sum else max(values, default=0.0)
    order = sorted(costs.items(), key=lambda item: (-item[1].value, item[0]))
    for path, found in order:
        if path in left_out or total <= 0:
            continue
        rest = total - found.value if is_sum else 0.0
        low, high = (
            bound / (bound + rest) if is_sum and bound + rest > 0 else min(bound / total, 1.0)
            for bound in (found.low, found.high)
        )
        yield CostShare(path, share.get(path, 0.0), Estimate(found.value / total, low, high))
    for path, _ in order:
        if path in left_out:
            yield CostShare(path, share.get(path, 0.0), Estimate(math.nan))


def find_unreliable(
    costs: Mapping[CallPath, Estimate], now: Mapping[CallPath, float]
) -> set[CallPath]:
    """The call paths of which no share is told at a place, nor do they count in those of others.

    One that is negligible now and might matter there, by bounds that span more than its value: of
    many noisy ones some always seem to grow steeply. And one whose cost no number reaches.

    Args:
        costs: at that place. now: shares at the largest scale measured.
    """
    endless = {
        path for path, one in costs.items() if not math.isfinite(one.value) or one.high == math.inf
    }
    doubtful = {
        path
        for path, one in costs.items()
        if now.get(path, 0.0) < RELEVANT and not one.doubt <= ROUGH
    }
    rest = sum(one.value for path, one in costs.items() if path not in doubtful | endless)
    return endless | {path for path in doubtful if _most(costs[path]) > RELEVANT * rest}


def _most(one: Estimate) -> float:
    return one.value if math.isnan(one.high) else one.high
