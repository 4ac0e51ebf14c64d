"""Litmus tests: expectations of something that is well understood, which test the machine.

A litmus test is, for example, a broadcast of the user's own next to that of the MPI library. If it
does not grow as expected either, the reason may be the machine, not the library [VAL §2.2].
Where growth is expected of a quotient (`relative_to`), the machine slows both sides alike: litmus
tests have no effect there.
"""

from collections.abc import Sequence
from dataclasses import replace

from insitu.expectations.result import Result, Status

NOT_DECIDED = (Status.UNSETTLED, Status.UNJUDGED)
WORST_FIRST = (Status.VIOLATED, *NOT_DECIDED)


def apply_litmus_tests(results: Sequence[Result]) -> list[Result]:
    """Return the results, with those that a litmus test leaves open.

    A litmus test is about the expectations of its own metric: counts do not depend on the machine
    that distorts times. While it is violated, they are neither violated nor undecided but not
    judged. While it is undecided, they are not violated but undecided. Expectations that are met
    stay met.
    """
    worst: dict[str, Result] = {}
    for status in reversed(WORST_FIRST):
        for result in results:
            if result.entry.is_litmus and result.status is status:
                worst[result.metric] = result

    judged = []
    for result in results:
        litmus = worst.get(result.metric)
        if litmus is None or result.entry.is_litmus or result.entry.reference:
            judged.append(result)
        elif litmus.status is Status.VIOLATED:
            judged.append(_without_judgement(result, litmus))
        else:
            judged.append(_undecided(result, litmus))
    return judged


def _without_judgement(result: Result, litmus: Result) -> Result:
    """The result under a violated litmus test."""
    if result.status not in (Status.VIOLATED, Status.UNSETTLED):
        return result
    return replace(
        result,
        status=Status.UNJUDGED,
        text=(
            f"not judged: the litmus test {_name(litmus)} is violated, "
            f"so the machine may be the cause; without it: {result.text}"
        ),
        probability=float("nan"),
        advice="measure where the litmus test is met: on idle nodes, or with other placement",
        settling_point=None,
    )


def _undecided(result: Result, litmus: Result) -> Result:
    """The result under a litmus test that is not decided."""
    if result.status is not Status.VIOLATED:
        return result
    return replace(
        result,
        status=Status.UNSETTLED,
        text=f"undecided, because the litmus test {_name(litmus)} is; without it: {result.text}",
        probability=float("nan"),
        advice=litmus.advice,
        settling_point=litmus.settling_point,
    )


def _name(litmus: Result) -> str:
    line = litmus.entry.line
    return f"{litmus.subject} (line {line})" if line else litmus.subject
