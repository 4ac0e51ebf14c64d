"""Numbers of ranks of a design, as a campaign shows that the program accepts them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from insitu.campaign.store import open_store
from insitu.design.class_coverage import ENOUGH_SCALES, find_class_gaps, propose_class_runs
from insitu.errors import UsageError
from insitu.modeling.rank_counts import find_refused


@dataclass(frozen=True, slots=True)
class RankLevels:
    """Numbers of ranks to run.

    Attributes:
        levels: ascending.
        refused: those named that the program seems to refuse, ascending.
        added: why, by number of ranks that was not named.
    """

    levels: tuple[float, ...]
    refused: tuple[float, ...]
    added: dict[int, str]


def choose_rank_levels(campaign: str, named: Sequence[float]) -> RankLevels:
    """Leave out numbers of ranks that a program seems to refuse, and add those its classes need.

    Every behaviour class of the largest run is to exist at five numbers of ranks, those of the
    runs so far included. These are part of the levels if none are named.

    Args:
        campaign: directory of a campaign with runs of the program.
        named: numbers of ranks that the user wants, if any.

    Raises:
        CampaignError: the campaign cannot be read.
        UsageError: it has no runs, or the program seems to refuse all numbers.
    """
    with open_store(campaign) as store:
        measured = sorted({run.key.size for run in store.runs()})
        gaps = find_class_gaps(store.models().clusters)
    if not measured:
        raise UsageError(f"{campaign}: no runs that show which numbers of ranks are accepted")

    refused = find_refused(measured, named)
    accepted = [level for level in named or measured if level not in refused]
    if not accepted:
        sizes = ", ".join(map(str, measured))
        raise UsageError(
            f"the program was measured on {sizes} ranks only, and seems to refuse all that are"
            " named: name other numbers of ranks, or use --ranks-from -"
        )

    # A class will also exist at the named numbers of ranks from its smallest one on.
    planned = sorted({int(level) for level in accepted} - set(measured))
    remaining = []
    for gap in gaps:
        count = gap.count + sum(size > gap.smallest for size in planned)
        if count < ENOUGH_SCALES:
            remaining.append(replace(gap, count=count))
    added = propose_class_runs(remaining, sorted({*measured, *planned}), ())
    return RankLevels(tuple(sorted({*accepted, *map(float, added)})), tuple(refused), added)
