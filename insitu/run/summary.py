"""Messages at the end of a run: where it is stored, what was noticed, what to do next."""

import os
import re
import sys
from collections.abc import Sequence

from insitu.blas_threads import use_one_blas_thread
from insitu.campaign.catalogue import Catalogue, open_catalogue
from insitu.campaign.selection import PARAMETER_NOT_SET, sample_rate, select_runs
from insitu.entities import RANK_SIGNAL, CallPath, Finding, RunRecord, RunState, number
from insitu.errors import CampaignError
from insitu.run.environment import trouble_file
from insitu.text import printable

MIN_SCALES = 3  # that a model needs
MAX_RANKS_READ = 2_000  # of all runs, whose values are read for the diagnosis
# Of a run whose models are waited for, and that is diagnosed for limits: 8,000 call paths of CP2K
# take 45 s of processor time, and then 17 s.
MAX_CALLPATHS = 5_000
UNFINISHED = frozenset(("rank-aborted", RANK_SIGNAL))  # findings of ranks that reached no end
COMPILED_HOOKS = ("preload", "isolated")  # of programs in which no function of Python is timed
SHOWN_RANKS = 10  # without a complete table
SHOWN_LOCATIONS = 4  # of a finding that many ranks have
SHOWN_FRAMES = 4  # of a call path
SHOWN_ERRORS = 5  # of ranks that could not be measured
FILE_CALLS = frozenset(  # the names of their rows, of native/files.c
    (
        *("open", "fopen", "fsync", "mmap", "read", "write", "pread", "pwrite", "readv", "writev"),
        "readdir",
        *("fread", "fwrite", "fgets", "fputs", "fprintf"),
    )
)
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def print_summary(record: RunRecord, campaign: str, code: int = 0) -> None:
    """Print where a run is stored, what to do next, and its findings.

    Args:
        record: the run as it is stored. campaign: path of the campaign.
        code: exit code of the program.
    """
    values = _parameters_text(record)
    where = os.path.relpath(campaign)
    if record.state is RunState.COMPLETE:
        print_message(
            f"run {values} (repetition {record.key.repetition}) is stored in {where}; "
            f"{next_step(record, where)}"
        )
        if code:
            print_message(
                f"the program ended with exit code {code}; if it failed, leave this run out with: "
                f"insitu omit {where} {record.key}"
            )
        for line in (*explain_exclusions(record, where), *diagnose_briefly(where)):
            print_message(line)
    else:
        print_message(describe_incomplete(record, campaign))

    about_ranks = [
        finding
        for finding in record.findings
        if finding.where != record.id or finding.code == RANK_SIGNAL
    ]
    for line in combine_findings(about_ranks):
        print_message(line)


def explain_exclusions(record: RunRecord, campaign: str) -> list[str]:
    """Return why this run, or others because of it, are left out of models, and how to label them.

    Args:
        record: the run that has ended.
        campaign: where it is stored.
    """
    try:
        with open_catalogue(campaign) as catalogue:
            _, exclusions = select_runs(catalogue.runs())
    except CampaignError:
        return []

    names = (str(record.key), str(record.key).partition("#")[0])
    own = [finding for finding in exclusions if finding.where in names]
    others = [finding for finding in exclusions if finding.code == PARAMETER_NOT_SET]
    shown = own or others
    lines = [finding.text.replace("CAMPAIGN", campaign) for finding in shown[:1]]
    if len(shown) > 1:
        lines.append(f"{len(shown) - 1} more: insitu runs {campaign}")
    return lines


def diagnose_briefly(campaign: str) -> list[str]:
    """The verdict on the program and its worst limits; before there are laws, what took the time.

    Empty for campaigns of many ranks, whose values would take long to read. Where the limits of
    many call paths would take long to find, it names `insitu diagnose` instead.
    """
    try:
        with open_catalogue(campaign) as catalogue:
            selected, _ = select_runs(catalogue.runs())
            n_callpaths = count_many_callpaths(catalogue)
        ranks = sum(run.key.size for run in selected)
        if not selected or ranks > MAX_RANKS_READ:
            return []
        if n_callpaths:
            command = f"insitu diagnose {campaign}"
            return [f"{n_callpaths:,} call paths; find what limits the program with: {command}"]

        # The program has ended: only now may insitu take the time to import numpy.
        use_one_blas_thread(os.environ)
        from insitu.analysis.diagnosis.lines import last_lines
        from insitu.analysis.source_lines import diagnose_with_lines
        from insitu.campaign.config import load_config
        from insitu.campaign.load import load_experiment
        from insitu.campaign.store import open_store

        with open_store(campaign) as store:
            config = load_config(campaign)
            diagnosis = diagnose_with_lines(
                load_experiment(store),
                store.runs(),
                store.models(),
                name=config.name,
                target=config.target,
                sites=store.sites(),
            )
        return last_lines(diagnosis)
    except CampaignError:
        return []
    except Exception as error:  # the run is stored, and its exit code is that of the program
        what = f"an error of insitu ({type(error).__name__}: {error})"
        return [f"no diagnosis because of {what}; insitu diagnose {campaign} shows where"]


def count_many_callpaths(catalogue: Catalogue) -> int:
    """The call paths of a campaign whose models and limits take long to find; 0 where they do not.

    With fewer than three scales, there are no laws to be found.
    """
    selected, _ = select_runs(catalogue.runs())
    if len({run.key.size for run in selected}) < MIN_SCALES:
        return 0
    n_callpaths = len(catalogue.callpaths(selected[-1].id))
    return n_callpaths if n_callpaths > MAX_CALLPATHS else 0


def _parameters_text(record: RunRecord) -> str:
    return ", ".join(f"{name}={number(value)}" for name, value in record.key.parameters)


def describe_incomplete(record: RunRecord, campaign: str) -> str:
    """Return which ranks of a run are missing, and what may complete it."""
    where = os.path.relpath(campaign)
    ranks = "rank" if len(record.missing) == 1 else "ranks"
    missing = ", ".join(map(str, record.missing[:SHOWN_RANKS])) or "?"
    more = ", …" if len(record.missing) > SHOWN_RANKS else ""
    # A rank that aborted, or that a signal ended, has no end to ingest.
    has_aborted = any(finding.code in UNFINISHED for finding in record.findings)
    hint = (
        ""
        if has_aborted
        else (f"; `insitu ingest {where}` may complete it, and {where}/logs/serve.log may say why")
    )
    return (
        f"run {_parameters_text(record)} is incomplete: {ranks} {missing}{more} exited abnormally;"
        f" the run is stored in {where} but not used for models{hint}"
    )


def combine_findings(findings: Sequence[Finding]) -> list[str]:
    """Return a line for each distinct finding, with the ranks that have it.

    Findings are the same if their texts differ in numbers only, which become `LOW to HIGH`.
    """
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, _NUMBER.sub("#", finding.text)), []).append(finding)

    lines = []
    for (code, _), group in groups.items():
        text = _range_text([finding.text for finding in group])
        # The text of a signal names the ranks.
        ranks = ["" if code == RANK_SIGNAL else _shorten(finding.where) for finding in group]
        hidden = len(ranks) - SHOWN_LOCATIONS
        shown = ", ".join(filter(None, ranks[:SHOWN_LOCATIONS]))
        where = shown + (f" and {hidden} more" if hidden > 0 else "")
        lines.append(f"{code}: {text}" + (f" ({where})" if where else ""))
    return lines


def _shorten(where: str) -> str:
    """Return a location; of a long call path, only the innermost functions."""
    frames = where.split("->")
    return where if len(frames) <= SHOWN_FRAMES else "…->" + "->".join(frames[-2:])


def _range_text(texts: Sequence[str]) -> str:
    """Return one text for texts that differ in numbers only."""
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    ranges = iter([sorted(set(column), key=_numeric_value) for column in columns])

    def replace(_: re.Match[str]) -> str:
        found = next(ranges)
        return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"

    return _NUMBER.sub(replace, texts[0])


def _numeric_value(text: str) -> float:
    return float(text.replace(",", ""))


def next_step(record: RunRecord, campaign: str) -> str:
    """Return what to do with a campaign after this run."""
    show_models = f"show its models with: insitu models {campaign}"
    try:
        with open_catalogue(campaign) as catalogue:
            runs, _ = select_runs(catalogue.runs())
            is_first = len(runs) <= 1
            callpaths = catalogue.callpaths(record.id) if is_first else []
    except CampaignError:
        return show_models

    hint = ""
    is_compiled = record.configuration.get("hook") in COMPILED_HOOKS
    if is_first and is_compiled and has_only_mpi(callpaths):
        hint = _hint_at_functions(record)

    scales = {run.key.parameters for run in runs}
    if len(scales) >= MIN_SCALES:
        return show_models + hint

    return f"for models, run it with other numbers of ranks{hint}"


def _hint_at_functions(record: RunRecord) -> str:
    """How to time the functions of a program of which only MPI calls were timed."""
    if sample_rate(record):
        return (
            "; its functions took too little CPU time to be sampled: to time them, run it longer"
            " or build it with -finstrument-functions"
        )
    return (
        "; only its MPI calls were timed: to time its functions as well, run it with --sample 97"
        " or build it with -finstrument-functions"
    )


def has_only_mpi(callpaths: Sequence[CallPath]) -> bool:
    """Whether a program made MPI calls, but none of its functions was timed.

    A function that calls others has a row of its own for what it and its callees allocate.
    """
    callers = {path.frames[:-1] for path in callpaths}
    called = [path for path in callpaths if path.frames not in callers]
    names = [path.name for path in called if len(path.frames) > 1]
    has_mpi = any(name.startswith("MPI_") for name in names)
    are_calls = (name.startswith(("MPI_", "(")) or name in FILE_CALLS for name in names)
    return has_mpi and all(are_calls)


def print_measurement_errors(run: str, campaign: str) -> bool:
    """Print why ranks of a run could not be measured; return whether there are such ranks."""
    try:
        with open(trouble_file(run, campaign), encoding="utf-8", errors="replace") as file:
            errors = sorted({line.strip() for line in file})
    except OSError:
        return False

    for error in errors[:SHOWN_ERRORS]:
        hint = ""
        if "No space left" in error:
            hint = "; free some space there, or name another directory with INSITU_TABLES"
        print_message(f"a rank could not be measured: {error}{hint}")
    return bool(errors)


def print_message(text: str) -> None:
    """Print a line on standard error; standard output belongs to the program."""
    print(f"insitu: {printable(text)}", file=sys.stderr, flush=True)
