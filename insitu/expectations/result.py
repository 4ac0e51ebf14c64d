"""The result of an expectation for one series."""

from dataclasses import dataclass
from enum import StrEnum

from insitu.expectations.entries import Entry
from insitu.expectations.settle import SettlingPoint
from insitu.expectations.validate import Verdict


class Status(StrEnum):
    """The outcome of an expectation."""

    MET = "met"
    NEAR = "near"  # approximate match [VAL §2.4]
    VIOLATED = "violated"
    UNSETTLED = "unsettled"  # the measurements do not decide yet
    UNJUDGED = "not judged"  # the measurements cannot decide


@dataclass(frozen=True, slots=True)
class Result:
    """One line of a report.

    Attributes:
        entry: the expectation.
        kind: growth, limit, rule or classes.
        subject: call path, or text of the rule.
        metric, behaviour: of the series; the behaviour class is ALL for rules and classes.
        expected, found: texts for the user.
        status: the outcome.
        text: a sentence.
        probability: that the status is right, NaN if it is unknown or does not apply.
        divergence: δ, of growth.
        adjusted_r2: NaN if it is not defined.
        advice: what to do if the expectation is undecided.
        settling_point: the further measurement that would decide it.
        verdict: of growth.
    """

    entry: Entry
    kind: str
    subject: str
    metric: str
    behaviour: str
    expected: str
    found: str
    status: Status
    text: str
    probability: float = float("nan")
    divergence: str = ""
    adjusted_r2: float = float("nan")
    advice: str = ""
    settling_point: SettlingPoint | None = None
    verdict: Verdict | None = None
