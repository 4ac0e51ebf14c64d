"""Diagnosing a campaign: what will limit the program on more ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from insitu.analysis.diagnosis.diagnose import Diagnosis
from insitu.analysis.diagnosis.machine import Machine, parse_machine
from insitu.analysis.diagnosis.packages import Site
from insitu.analysis.predict import Point
from insitu.analysis.source_lines import diagnose_with_lines, newest_start, with_lines
from insitu.campaign.config import load_config, unused_target_notes
from insitu.campaign.layout import CAMPAIGN_FILE
from insitu.campaign.load import load_experiment
from insitu.campaign.program_names import sites_of_usual_program
from insitu.campaign.selection import select_runs
from insitu.campaign.store import SqliteStore, open_store
from insitu.entities import RANKS, SCALINGS, CallPath, parse_assignment
from insitu.errors import CampaignError, UsageError
from insitu.modeling.base import ModelSet
from insitu.modeling.measurement import Experiment


def diagnose(
    campaign: str, *, at: Point | None = None, machine: str = "", scaling: str = ""
) -> Diagnosis:
    """Diagnose the complete runs of a campaign.

    Args:
        campaign: directory of the campaign.
        at: the target, such as "p=65536"; default: `target` of campaign.toml, else 64 times the
            largest number of ranks, at most 65,536.
        machine: what to assume of the target, see `parse_machine`; default: `machine` of
            campaign.toml.
        scaling: "weak" or "strong"; default: `scaling` of campaign.toml, else as the measurements
            show.

    Raises:
        CampaignError: there is no campaign, it cannot be read, or it has no complete run.
        UsageError: an argument makes no sense.
    """
    with open_store(campaign) as store:
        return diagnose_store(store, at=at, machine=machine, scaling=scaling)


def diagnose_store(
    store: SqliteStore,
    *,
    at: Point | None = None,
    machine: str = "",
    scaling: str = "",
    loaded: tuple[Experiment, ModelSet] | None = None,
) -> Diagnosis:
    """Diagnose the complete runs of an open campaign; see `diagnose`.

    Args:
        loaded: its runs and models, where they were read before.
    """
    config = load_config(store.path)
    records = store.runs()
    selected, _ = select_runs(records)
    if not selected:
        ended = f"; {len(records)} ended early: `insitu runs {store.path}` says how"
        raise CampaignError(
            f"{store.path}: no complete run yet{ended if records else ''}; measure one with"
            f" `insitu run --campaign {store.path} -- COMMAND`"
        )

    experiment, models = loaded or (load_experiment(store), store.models())
    diagnosis = diagnose_with_lines(
        experiment,
        records,
        models,
        name=config.name,
        target=config.target if at is None else _parse_target(at, experiment.parameters),
        machine=_find_machine(machine, config.machine),
        scaling=_find_scaling(scaling) or config.scaling,
        sites=store.sites(),
    )
    notes = unused_target_notes(store.path, records)
    return replace(diagnosis, notes=(*notes, *diagnosis.notes)) if notes else diagnosis


def load_sites(store: SqliteStore) -> Mapping[CallPath, Site]:
    """Where the functions of a campaign are defined, with lines of compiled ones."""
    records = store.runs()
    selected, _ = select_runs(records)
    return with_lines(sites_of_usual_program(store.sites(), selected), newest_start(records))


def _find_machine(given: str, configured: str) -> Machine:
    """The machine of a command, else that of campaign.toml."""
    if given:
        return parse_machine(given)
    try:
        return parse_machine(configured, f"{CAMPAIGN_FILE}: machine")
    except UsageError as error:
        raise CampaignError(str(error)) from error


def _find_scaling(given: str) -> str:
    if given not in ("", *SCALINGS):
        raise UsageError(f"no scaling '{given}'; available: {', '.join(SCALINGS)}")
    return given


def _parse_target(at: Point, parameters: Sequence[str]) -> dict[str, float]:
    """The parameter values of a target; parameters may be left out."""
    if not isinstance(at, str):
        values = {name: float(value) for name, value in at.items()}
    else:
        try:
            values = dict(parse_assignment(text) for text in at.split(","))
        except ValueError as error:
            raise UsageError(f"--at {at}: {error}") from error

    available = tuple(dict.fromkeys((RANKS, *parameters)))
    for name in values:
        if name not in available:
            raise UsageError(
                f"--at {at}: no parameter '{name}' that varies; available: {', '.join(available)}"
            )

    if min(values.values()) <= 0:
        raise UsageError(f"--at {at}: values must be above 0")

    return values
