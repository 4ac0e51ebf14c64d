"""Writing the growth of an accepted campaign as expectations [VAL §2.1]."""

import glob
import json
import os
from dataclasses import dataclass, replace

from insitu.analysis.cost import MIN_SHARE, measured_shares, metric_order
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.entities import TIME, TIME_EXCLUSIVE, CallPath, number
from insitu.errors import UsageError
from insitu.expectations.assess import assess
from insitu.expectations.baseline import bounds_from_baseline
from insitu.expectations.entries import Entry
from insitu.expectations.result import Result, Status
from insitu.modeling.base import ALL, MAXIMUM, ModelSet
from insitu.modeling.classes.naming import is_letter
from insitu.modeling.measurement import Experiment
from insitu.workflows.selection import load_models

HEADER = """\
# Growth of {campaign} as it was accepted: `insitu check CAMPAIGN {file}`.
# Call paths with at least {share:.0%} of the cost.
# Growth that the values do not show beside the accepted ones is undecided.
# Where you change a growth, remove its accepted values.
"""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a file of expectations contains.

    Attributes:
        accepted: number of expectations.
        omitted: the results that are not judged, or violated, which have no expectation.
    """

    accepted: int
    omitted: tuple[Result, ...]


def accept_campaign(campaign: str, file: str) -> Acceptance:
    """Write expectations that the models of a campaign meet: nothing may grow faster than now.

    Args:
        campaign: directory of the campaign.
        file: TOML file of expectations that does not exist yet.

    Raises:
        CampaignError: the campaign cannot be read, or has no models.
        UsageError: the file exists or cannot be written, or nothing can be accepted.
    """
    with open_store(campaign) as store:
        models = load_models(store)
        experiment = load_experiment(store)

    text, acceptance = accept_growth(experiment, models)
    if not acceptance.accepted:
        has_any = any(share >= MIN_SHARE for share in measured_shares(models).values())
        raise UsageError(
            f"{campaign}: no growth of a call path with {MIN_SHARE:.0%} of the cost can be judged; "
            "measure with a core of its own for each rank"
            if has_any
            else f"{campaign}: no call path has {MIN_SHARE:.0%} of the cost; write what you expect "
            f"of some to {file}"
        )

    name = os.path.basename(os.path.normpath(campaign))
    header = HEADER.format(campaign=name, file=os.path.basename(file), share=MIN_SHARE)
    _write_new(file, header + text)
    return acceptance


def accept_growth(experiment: Experiment, models: ModelSet) -> tuple[str, Acceptance]:
    """The expectations that the models of an experiment meet, as TOML, and what these are."""
    accepted: list[Result] = []
    omitted: list[Result] = []
    for result in assess(_find_bounds(models), experiment, models):
        is_decided = result.status in (Status.MET, Status.NEAR)
        (accepted if is_decided else omitted).append(result)
    return "".join(map(_table, accepted)), Acceptance(len(accepted), tuple(omitted))


def _find_bounds(models: ModelSet) -> list[Entry]:
    """The growth of all series that get an expectation, by the cost of their call paths.

    Inclusive times repeat those of the call paths below. The mean of all ranks follows from its
    classes. Where these have letters, which are those of other ranks in another campaign, the mean
    has the expectation.
    """
    share = measured_shares(models)
    expensive = {path for path, part in share.items() if part >= MIN_SHARE}
    expensive_models = replace(
        models, models=[s for s in models.models if s.key.callpath in expensive]
    )
    bounds, _ = bounds_from_baseline(expensive_models, _without_letters(expensive_models), [])
    metrics = {series.key.metric for series in models.models}
    of_classes = {(entry.callpath, entry.metric) for entry in bounds if entry.behaviour != ALL}

    has_classes = {
        (series.key.callpath, series.key.metric)
        for series in models.models
        if series.key.behaviour not in (ALL, MAXIMUM)
    }
    entries = []
    for entry in bounds:
        is_repeated = entry.metric == TIME.name and TIME_EXCLUSIVE.name in metrics
        is_mean = entry.behaviour == ALL and (entry.callpath, entry.metric) in of_classes
        if not (is_repeated or is_mean or entry.behaviour == MAXIMUM):
            is_single = (CallPath.parse(entry.callpath), entry.metric) not in has_classes
            entries.append(replace(entry, behaviour="") if is_single else entry)

    entries.sort(
        key=lambda entry: (
            -share[CallPath.parse(entry.callpath)],
            entry.callpath,
            metric_order(entry.metric),
            entry.behaviour,
        )
    )
    return entries


def _without_letters(models: ModelSet) -> ModelSet:
    """The models without those of classes where any class of the series has a letter."""
    with_letters = {
        (series.key.callpath, series.key.metric)
        for series in models.models
        if is_letter(series.key.behaviour)
    }
    kept = [
        series
        for series in models.models
        if series.key.behaviour == ALL
        or (series.key.callpath, series.key.metric) not in with_letters
    ]
    return replace(models, models=kept)


def _table(result: Result) -> str:
    """An expectation as TOML; strings of JSON are strings of TOML."""
    lines = ["", "[[expect]]", f"callpath = {json.dumps(glob.escape(result.subject))}"]
    lines += [f"metric = {json.dumps(result.metric)}"]
    if result.entry.behaviour:
        lines.append(f"class = {json.dumps(result.behaviour)}")
    lines.append(f"growth = {json.dumps(result.expected)}")
    values = []
    for at, value in result.entry.accepted:
        point = ",".join(f"{name}={number(x)}" for name, x in at)
        values.append(f"{json.dumps(point)} = {value!r}")
    lines.append(f"accepted = {{{', '.join(values)}}}")
    return "\n".join(lines) + "\n"


def _write_new(file: str, text: str) -> None:
    try:
        with open(file, "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise UsageError(f"{file} exists; remove it first, or write another file") from error
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error
