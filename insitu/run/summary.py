"""What people are told of a run that has ended."""

import os
import sys
from collections.abc import Sequence

from insitu.campaign.catalogue import open_catalogue
from insitu.campaign.selection import select_runs
from insitu.entities import CallPath, Finding, RunRecord, RunState, number
from insitu.errors import CampaignError
from insitu.text import printable

LEAST_SCALES = 3  # of which models can be made
SHOWN_PLACES = 4  # of a finding that many ranks have


def say_record(record: RunRecord, campaign: str) -> None:
    """Where a run is, what there is to do with it, and what was found."""
    values = ", ".join(f"{name}={number(value)}" for name, value in record.key.parameters)
    where = os.path.relpath(campaign)
    if record.state is RunState.COMPLETE:
        say(
            f"run {values} (repetition {record.key.repetition}) is in {where}; "
            f"{what_next(record, where)}"
        )
    else:
        missing = ", ".join(map(str, record.missing[:10])) + (
            ", …" if len(record.missing) > 10 else ""
        )
        has_aborted = any(found.code == "rank-aborted" for found in record.findings)
        hint = (
            f"; `insitu ingest {where}` may complete it, {where}/logs/serve.log may say more"
        ) * (not has_aborted)
        say(
            f"run {values} is partial: rank {missing or '?'} did not end orderly; it is kept in "
            f"{where} and not modelled{hint}"
        )
    for line in folded([found for found in record.findings if found.where != record.id]):
        say(line)


def folded(findings: Sequence[Finding]) -> list[str]:
    """A line for each thing that there is to know, however many ranks say it."""
    places: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        places.setdefault((finding.code, finding.text), []).append(finding.where)
    lines = []
    for (code, text), named in places.items():
        more = f" and {len(named) - SHOWN_PLACES} more" if len(named) > SHOWN_PLACES else ""
        where = ", ".join(filter(None, named[:SHOWN_PLACES])) + more
        lines.append(f"{code}: {text}" + (f" ({where})" if where else ""))
    return lines


def what_next(record: RunRecord, where: str) -> str:
    """What there is to do with the campaign after this run."""
    models = f"its models: insitu models {where}"
    try:
        with open_catalogue(where) as catalogue:
            sealed, _ = select_runs(catalogue.runs())
            scales = {run.key.parameters for run in sealed}
            if len(sealed) > 1 or not has_only_mpi(catalogue.callpaths(record.id)):
                hint = ""
            else:
                hint = (
                    "; only its MPI calls were timed: build it with -finstrument-functions to see"
                    " its functions, too"
                )
    except CampaignError:
        return models
    if len(scales) >= LEAST_SCALES:
        return models + hint
    return (
        f"models need {LEAST_SCALES} scales, {len(scales)} measured so far: run it with other "
        f"numbers of ranks{hint}"
    )


def has_only_mpi(callpaths: Sequence[CallPath]) -> bool:
    """Whether no function of a program that makes MPI calls was seen."""
    below = [path.name for path in callpaths if len(path.frames) > 1]
    return any(name.startswith("MPI_") for name in below) and all(
        name.startswith(("MPI_", "(")) for name in below
    )


def say_trouble(run: str, campaign: str) -> bool:
    """What ranks left that could not be measured; whether there were any."""
    path = os.path.join(campaign, "logs", f"trouble-{run}")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = sorted({line.strip() for line in file})
    except OSError:
        return False
    for line in lines[:5]:
        is_full = "No space left" in line
        hint = "; make room there, or name another directory with INSITU_TABLES" * is_full
        say(f"a rank could not be measured: {line}{hint}")
    return bool(lines)


def say(text: str) -> None:
    """One line for people; standard output is the program's."""
    print(f"insitu: {printable(text)}", file=sys.stderr, flush=True)
