"""One limit for a function to which many call paths lead.

Programs often call MPI in a few functions of their own, such as `mp_sum`, from everywhere: what
counts is how much these functions send altogether.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from insitu.analysis.diagnosis.growth import CountGrowth
from insitu.analysis.diagnosis.laws import ExactLaw, LawFactor
from insitu.analysis.diagnosis.limit import Limit
from insitu.analysis.diagnosis.packages import Site
from insitu.entities import CallPath

KINDS = ("messages", "bytes", "serial", "files")
WITHOUT_LAW = ("serial", "files")  # of one rank, or of files, which are no neighbours


def merge_callers(limits: Sequence[Limit], sites: Mapping[CallPath, Site]) -> list[Limit]:
    """Add up the limits of a function that follow laws with the same term, or none.

    Args:
        limits: of all call paths.
        sites: where functions are defined; functions of the same name may be several.

    Returns:
        The limits, those that were added up in place of the first of them, with the call path of
        the one that grows most.
    """
    groups: dict[Hashable, list[Limit]] = {}
    for i, limit in enumerate(limits):
        groups.setdefault(_key(limit, sites) or i, []).append(limit)
    return [_add_up(group) if len(group) > 1 else group[0] for group in groups.values()]


def _key(limit: Limit, sites: Mapping[CallPath, Site]) -> Hashable:
    """What limits that can be added up have in common; None if nothing can be added to this one."""
    growth = limit.growth
    if limit.kind in WITHOUT_LAW and growth.law is None and growth.is_growing:
        return _subject(limit, sites)
    if limit.kind not in KINDS or not (limit.is_exact or limit.condition) or limit.rank is not None:
        return None
    laws = [law for law in (growth.law, growth.mean, limit.bytes_law) if law is not None]
    factors = [law.single_factor for law in laws]
    if growth.law is None or None in factors:
        return None

    terms = tuple(factor.term for factor in factors if factor is not None)
    return (
        *_subject(limit, sites),
        *(growth.is_growing, growth.is_certain),
        *(growth.mean is None, limit.bytes_law is None, terms),
    )


def _subject(limit: Limit, sites: Mapping[CallPath, Site]) -> tuple[Hashable, ...]:
    """What is counted, in which function, on which rank, and under which condition."""
    return (
        *(limit.kind, limit.metric, limit.unit, limit.subject),
        *(limit.path.name, sites.get(limit.path), limit.path.parent is None),
        limit.detail.name if limit.detail is not None else "",
        *(limit.growth.single, limit.is_lower_bound, limit.condition),
    )


def _add_up(limits: Sequence[Limit]) -> Limit:
    most = max(limits, key=lambda limit: limit.growth.high)
    growths = [limit.growth for limit in limits]
    costs = [limit.cost for limit in limits]
    return replace(
        most,
        growth=_sum_of_growths(growths, most.growth),
        cost=lambda p: sum(cost(p) for cost in costs),
        is_once=all(limit.is_once for limit in limits),
        subject=f"{most.subject} in {len(limits)} call paths",
        bytes_law=_sum_of_laws([limit.bytes_law for limit in limits]),
        includes=tuple(
            path
            for limit in limits
            for path in (limit.path, limit.detail, *limit.includes)
            if path is not None and path != most.path
        ),
    )


def _sum_of_growths(growths: Sequence[CountGrowth], most: CountGrowth) -> CountGrowth:
    return replace(
        most,
        law=_sum_of_laws([growth.law for growth in growths]),
        mean=_sum_of_laws([growth.mean for growth in growths]),
        low=sum(growth.low for growth in growths),
        high=sum(growth.high for growth in growths),
        exponents=(
            min(growth.exponents[0] for growth in growths),
            max(growth.exponents[1] for growth in growths),
        ),
        now=sum(growth.now for growth in growths),
        mean_now=sum(growth.mean_now for growth in growths),
    )


def _sum_of_laws(laws: Sequence[ExactLaw | None]) -> ExactLaw | None:
    """The sum of laws with the same term; None if there are none."""
    known = [law for law in laws if law is not None]
    factors = [factor for law in known if (factor := law.single_factor) is not None]
    if not factors:
        return None
    total = LawFactor(
        constant=sum(factor.constant for factor in factors),
        coefficient=sum(factor.coefficient for factor in factors),
        term=factors[0].term,
    )
    return ExactLaw((total,), min(law.points for law in known), max(law.of for law in known))
