"""Which sealed runs make one experiment, why the others do not."""

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Sequence

from insitu.entities import RANKS, Configuration, Finding, RunKey, RunRecord, RunState

OMITTED_CODE = "run-omitted"  # the finding of a run that somebody left out
_INTERPRETER = re.compile(r"python[0-9.]*\Z")


def is_oversubscribed(run: RunRecord) -> bool:
    """Whether the run had more ranks than its nodes have processor cores, as far as is known."""
    cores = [int(text) for text in run.configuration.get("cores").split(", ") if text.isdigit()]
    nodes = len(run.configuration.get("host").split(", "))
    return bool(cores) and run.key.size > max(cores) * nodes


def omission_finding(run: RunRecord) -> Finding:
    """What a run bears that somebody left out."""
    text = f"run {run.key}: left out as was asked for; `insitu omit --undo` takes it back"
    return Finding(OMITTED_CODE, text, str(run.key))


def is_omitted(run: RunRecord) -> bool:
    """Whether somebody left it out."""
    return any(finding.code == OMITTED_CODE for finding in run.findings)


def select_runs(runs: Sequence[RunRecord]) -> tuple[list[RunRecord], tuple[Finding, ...]]:
    """Part the runs that make one experiment from the others, with a finding for each of these.

    Left out are runs that somebody omitted, that are not sealed, whose ranks were each alone, that
    measured another program than most, and that did not set a parameter which other runs vary. Runs
    that repeat each other with other arguments are joined, with a finding.
    """
    findings: list[Finding] = []
    sealed = []
    for run in runs:
        if is_omitted(run):
            findings += [finding for finding in run.findings if finding.code == OMITTED_CODE]
        elif any(finding.code == "mpi-singletons" for finding in run.findings):
            text = f"run {run.key}: its ranks ran alone, without MPI between them: left out"
            findings.append(Finding("mpi-singletons", text, str(run.key)))
        elif run.state is RunState.COMPLETE:
            sealed.append(run)
        elif run.state is RunState.INCOMPLETE:
            findings.append(_partial(run))
    named = Counter(name for run in sealed if (name := application(run.configuration)))
    usual = named.most_common(1)[0][0] if named else ""
    alike = []
    for run in sealed:
        name = application(run.configuration)
        if name in ("", usual):
            alike.append(run)
        else:
            text = f"measured {name}, the others {usual}: left out; give it a campaign of its own"
            findings.append(Finding("application-differs", f"run {run.key} {text}", str(run.key)))
    complete = []
    names = varying_parameters(alike)
    for run in alike:
        unset = [name for name in names if name not in dict(run.key.parameters)]
        if not unset:
            complete.append(run)
            continue
        options = " ".join(f"--param {name}=VALUE" for name in unset)
        text = (
            f"does not say {', '.join(unset)}, which others vary: left out; measure with {options}"
        )
        findings.append(Finding("parameter-not-set", f"run {run.key} {text}", str(run.key)))
    return complete, (*findings, *_arguments_differ(complete))


def varying_parameters(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """The parameters that have two values or more, ranks first; ("p",) where none has."""
    values: dict[str, set[float]] = {}
    for run in runs:
        for name, value in run.key.parameters:
            values.setdefault(name, set()).add(value)
    names = sorted((name for name in values if len(values[name]) > 1), key=_ranks_first)
    return tuple(names) or (RANKS,)


def application(configuration: Configuration) -> str:
    """The name of the program that a run measured, without its arguments; empty where unknown.

    What the ranks say they ran, whoever launched them; else what was launched: `python -m pkg` is
    `pkg`, `python3 app/heat.py --cells 4` is `heat.py`.
    """
    if configuration.get("program"):
        return configuration["program"]
    words = _words(configuration.get("command"))
    if words and _INTERPRETER.match(os.path.basename(words[0])):
        words = words[1:]
    if not words:
        return ""
    if words[0] in ("-m", "-c") and len(words) > 1:
        return words[1]
    return os.path.basename(words[0])


def _arguments_differ(runs: Sequence[RunRecord]) -> list[Finding]:
    """Repetitions that were started differently: something varies that is no parameter."""
    commands: dict[str, set[str]] = {}
    for run in runs:
        place = str(RunKey(run.key.parameters)).removesuffix("#0")
        commands.setdefault(place, set()).add(run.configuration.get("command"))
    return [
        Finding(
            "arguments-differ",
            f"runs at {place} were started as `{'`, `'.join(sorted(known))}`:"
            " name what varies, as in --param n=256",
            place,
        )
        for place, known in commands.items()
        if len(known - {""}) > 1
    ]


def _words(command: str) -> list[str]:
    """A command that was kept as a JSON list or as a line for a shell."""
    try:
        value = json.loads(command)
    except ValueError:
        value = None
    if isinstance(value, list):
        return [str(word) for word in value]
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _partial(run: RunRecord) -> Finding:
    ended = run.key.size - len(run.missing)
    text = f"run {run.key}: {ended} of {run.key.size} ranks arrived: shown, not modelled"
    hint = "`insitu ingest` completes it if tables are left"
    return Finding("run-partial", f"{text}; {hint}", str(run.key))


def _ranks_first(name: str) -> tuple[bool, str]:
    return (name != RANKS, name)
