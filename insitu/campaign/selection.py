"""Which runs of a campaign form one experiment, and why the others do not."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from insitu.campaign.agent_costs import agent_costs
from insitu.campaign.arguments import ARGUMENTS_DIFFER, find_different_arguments
from insitu.campaign.program_names import application, measures, usual_program
from insitu.entities import RANKS, Finding, RunKey, RunRecord, RunState

OMITTED_CODE = "run-omitted"  # the finding of a run that the user omitted
SINGLETONS_CODE = "mpi-singletons"  # the finding of a run whose ranks were not connected by MPI
OTHER_PROCESS = "other-process"  # the finding of a rank under which another program ran
BUILD_DIFFERS = "build-differs"  # the finding of runs of another build than most
PARAMETER_NOT_SET = "parameter-not-set"  # the finding of a run without a parameter of others
STALE_MODELS = ("models-damaged", "models-outdated")  # findings that come with stored models
MAX_LISTED_RUNS = 4  # that have a finding
LEAST_PRECISE = 0.75  # of the samples: the others cannot change much


def is_oversubscribed(run: RunRecord) -> bool:
    """Whether the run had more busy threads than its nodes have cores; False where that is unknown.

    A rank of one thread is one busy thread.
    """
    cores = core_count(run)
    return cores is not None and run.key.size * thread_count(run) > cores


def thread_count(run: RunRecord) -> int:
    """The largest number of threads of a rank that used processors; 1 where it is unknown."""
    threads = [int(t) for t in run.configuration.get("threads").split(", ") if t.isdigit()]
    return max(threads, default=1)


def core_count(run: RunRecord) -> int | None:
    """The number of processor cores of all nodes of a run; None where it is unknown."""
    cores = [int(text) for text in run.configuration.get("cores").split(", ") if text.isdigit()]
    nodes = len(run.configuration.get("host").split(", "))
    return max(cores) * nodes if cores else None


def sample_rate(run: RunRecord) -> int:
    """Samples per second of CPU time that its functions were timed with; 0 if they were not."""
    rates = run.configuration.get("sample_hz").split(", ")  # one per node, where they differ
    return min((int(text) for text in rates if text.isdigit()), default=0)


def are_imported(runs: Sequence[RunRecord]) -> bool:
    """Whether other tools measured all of them."""
    return all(run.configuration.get("imported") for run in runs)


def has_precise_samples(run: RunRecord) -> bool:
    """Whether its samples were taken when they were due, on all nodes.

    The others are taken when the kernel ticks (`docs/decisions/0037-sampling.md`).
    """
    shares = [cost["precise_samples"] for cost in agent_costs(run) if "precise_samples" in cost]
    are_numbers = all(isinstance(share, int | float) for share in shares)
    return bool(shares) and are_numbers and min(shares) >= LEAST_PRECISE


def omission_finding(run: RunRecord) -> Finding:
    """The finding that marks a run as omitted by the user."""
    text = f"run {run.key}: omitted on request; `insitu omit --undo` includes it again"
    return Finding(OMITTED_CODE, text, str(run.key))


def is_omitted(run: RunRecord) -> bool:
    """Whether the user omitted the run."""
    return _has_finding(run, OMITTED_CODE)


def select_runs(runs: Sequence[RunRecord]) -> tuple[list[RunRecord], tuple[Finding, ...]]:
    """Select the runs that form one experiment; a finding explains each run that is left out.

    A run is left out if the user omitted it, if it is not complete, if MPI did not connect its
    ranks, if it measured another program than most runs, or if it does not set a parameter that
    other runs vary. Runs whose arguments differ by more than their parameters, and runs of another
    build of the program than most, are selected; findings name them.
    """
    complete, findings = _select_complete(runs)
    same_program, more = _select_usual_program(complete)
    findings += more
    selected, more = _select_with_all_parameters(same_program)
    findings += more

    found = (*find_different_arguments(selected), *_find_different_builds(selected))
    return selected, (*findings, *found)


def _select_complete(runs: Sequence[RunRecord]) -> tuple[list[RunRecord], list[Finding]]:
    """Leave out runs that are omitted, incomplete, or without MPI between their ranks."""
    complete: list[RunRecord] = []
    findings: list[Finding] = []

    for run in runs:
        if is_omitted(run):
            findings += [finding for finding in run.findings if finding.code == OMITTED_CODE]
        elif _has_finding(run, SINGLETONS_CODE):
            text = f"run {run.key}: its ranks ran alone, without MPI between them; left out"
            findings.append(Finding(SINGLETONS_CODE, text, str(run.key)))
        elif run.state is RunState.COMPLETE:
            complete.append(run)
        elif run.state is RunState.INCOMPLETE:
            findings.append(_incomplete_finding(run))

    return complete, findings


def _select_usual_program(runs: Sequence[RunRecord]) -> tuple[list[RunRecord], list[Finding]]:
    """Leave out runs of another program than most; runs whose program is unknown stay."""
    usual = usual_program(runs)
    selected: list[RunRecord] = []
    findings: list[Finding] = []
    for run in runs:
        if measures(run, usual):
            selected.append(run)
            continue
        program = application(run.configuration)
        text = (
            f"run {run.key} measured {program}, the others {usual}; left out."
            " Give it a campaign of its own"
        )
        findings.append(Finding("application-differs", text, str(run.key)))

    return selected, findings


def _select_with_all_parameters(
    runs: Sequence[RunRecord],
) -> tuple[list[RunRecord], list[Finding]]:
    """Leave out runs that do not set a parameter which other runs vary.

    A parameter with one value that only some runs set may change what is measured, too. Then the
    fewer runs are left out, unless all runs were started with the same command.
    """
    selected: list[RunRecord] = []
    findings: list[Finding] = []
    varying = varying_parameters(runs)
    usual, unusual = _partly_set_parameters(runs, varying)

    for run in runs:
        names = {name for name, _ in run.key.parameters}
        unset = [name for name in (*varying, *usual) if name not in names]
        excess = [name for name in unusual if name in names]
        if unset:
            text = _unset_text(run.key, unset)
        elif excess:
            keys = [usual_run.key for usual_run in runs]
            other = next(key for key in keys if excess[0] not in dict(key.parameters))
            text = (
                f"run {run.key} sets {', '.join(excess)}, which most runs do not; left out. Label"
                f" the others, as in `insitu label CAMPAIGN {other} {excess[0]}=VALUE`"
            )
        else:
            selected.append(run)
            continue
        findings.append(Finding(PARAMETER_NOT_SET, text, str(run.key)))

    return selected, findings


def _unset_text(key: RunKey, unset: Sequence[str]) -> str:
    assignments = [f"{name}=VALUE" for name in unset]
    options = " ".join(f"--param {assignment}" for assignment in assignments)
    return (
        f"run {key} does not set {', '.join(unset)}, which other runs set; left out."
        f" Label it with `insitu label CAMPAIGN {key} {' '.join(assignments)}`, or measure it"
        f" again with {options}"
    )


def _partly_set_parameters(
    runs: Sequence[RunRecord], varying: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Parameters with one value that only some runs set: those that most set, and the others.

    Where all commands are known and the same, such a parameter is taken to be a mere label.
    """
    commands = {run.configuration.get("command") for run in runs}
    if len(commands) == 1 and "" not in commands:
        return [], []

    counts = Counter(name for run in runs for name, _ in run.key.parameters)
    usual: list[str] = []
    unusual: list[str] = []
    for name, count in sorted(counts.items()):
        if name not in varying and count < len(runs):
            (usual if 2 * count > len(runs) else unusual).append(name)
    return usual, unusual


def varying_parameters(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """The parameters with at least two values, ranks first; ("p",) if there is none."""
    values: dict[str, set[float]] = {}
    for run in runs:
        for name, value in run.key.parameters:
            values.setdefault(name, set()).add(value)

    names = sorted((name for name in values if len(values[name]) > 1), key=_ranks_first)
    return tuple(names) or (RANKS,)


def find_constants(runs: Sequence[RunRecord]) -> dict[str, float]:
    """The parameters that all runs set to the same value."""
    if not runs:
        return {}
    shared = set.intersection(*(set(run.key.parameters) for run in runs))
    return dict(sorted(shared))


def _find_different_builds(runs: Sequence[RunRecord]) -> list[Finding]:
    """Report runs of another build of the program than most, which may differ by more than scale.

    A program that is built for one number of ranks has a build for each.
    """
    runs_of: dict[str, list[RunRecord]] = {}
    for run in runs:
        if run.configuration.get("build"):
            runs_of.setdefault(run.configuration["build"], []).append(run)
    sizes = {build: {run.key.parameters for run in built} for build, built in runs_of.items()}
    if len(runs_of) < 2 or all(len(coordinates) == 1 for coordinates in sizes.values()):
        return []

    usual = max(runs_of.values(), key=len)
    others = [run for built in runs_of.values() if built is not usual for run in built]
    names = ", ".join(str(run.key) for run in others[:MAX_LISTED_RUNS])
    more = ", …" if len(others) > MAX_LISTED_RUNS else ""
    text = (
        f"{names}{more} ran another version of {usual_program(runs)} than"
        f" {len(usual)} other runs: what differs between them need not be due to scale. Measure"
        " them again, or leave them out with `insitu omit`"
    )
    newest = max(others, key=lambda run: run.started_at)
    return [Finding(BUILD_DIFFERS, text, str(newest.key))]


def _incomplete_finding(run: RunRecord) -> Finding:
    ended = run.key.size - len(run.missing)
    text = (
        f"run {run.key}: incomplete, {ended} of {run.key.size} ranks arrived; shown, but not used"
        " for models. `insitu ingest` completes it if tables are left"
    )
    return Finding("run-partial", text, str(run.key))


def _has_finding(run: RunRecord, code: str) -> bool:
    return any(finding.code == code for finding in run.findings)


def _ranks_first(name: str) -> tuple[bool, str]:
    return (name != RANKS, name)


def find_other_processes(selected: Sequence[RunRecord]) -> list[Finding]:
    """Report that programs of a job besides the measured one are not part of the values."""
    count = sum(_has_finding(run, OTHER_PROCESS) for run in selected)
    if not count:
        return []
    text = (
        f"a further program of the job ran in {count} of {len(selected)} runs and was not"
        " measured; `insitu runs` names it. If it matters, measure it in a run of its own"
    )
    return [Finding(OTHER_PROCESS, text)]


def run_notes(records: Sequence[RunRecord]) -> list[str]:
    """What a judgement of these runs does not cover: runs that are left out, other programs of the
    job; and what it mixes: arguments that differ by more than parameters, and builds."""
    selected, exclusions = select_runs(records)
    ended = sum(run.state in (RunState.COMPLETE, RunState.INCOMPLETE) for run in records)
    left_out = ended - len(selected)

    notes = []
    if left_out:
        verb = "is" if left_out == 1 else "are"
        notes.append(f"{left_out} of {ended} runs {verb} left out; `insitu runs` says why")
    notes += [finding.text for finding in find_other_processes(selected)]
    mixed = (ARGUMENTS_DIFFER, BUILD_DIFFERS)
    return notes + [finding.text for finding in exclusions if finding.code in mixed]


def describe_stale_models(findings: Iterable[Finding]) -> list[str]:
    """What stored models lack by their findings: runs that are newer, or what was damaged."""
    return [finding.text for finding in findings if finding.code in STALE_MODELS]


def describe_run_findings(runs: Sequence[RunRecord]) -> list[Finding]:
    """The findings about runs, each once, in the order of the runs.

    Those that not all runs have begin with the runs that have them, unless they name them anyway.
    """
    names: dict[Finding, list[str]] = {}
    for run in runs:
        for finding in run.findings:
            names.setdefault(finding, []).append(str(run.key))

    described = []
    for finding, keys in names.items():
        is_named = len(keys) == len(runs) or any(key in finding.text for key in keys)
        more = ", …" if len(keys) > MAX_LISTED_RUNS else ""
        prefix = "" if is_named else f"{', '.join(keys[:MAX_LISTED_RUNS])}{more}: "
        described.append(replace(finding, text=f"{prefix}{finding.text}"))
    return described
