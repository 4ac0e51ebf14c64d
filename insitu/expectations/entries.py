"""Reads expectations.toml: what the user expects of a program.

[[expect]]
callpath = "solve"               # a function, or the end of a call path; * and ? match
metric = "time"                  # the default
growth = "O(n log n)"            # "<= O(n log n)": an upper bound
deviation = "sqrt(n)"            # optional, else the leading exponent halved
search = "n^(2/7), n^5"          # optional, added to the search space
litmus = true                    # optional: it tests the machine, see litmus.py
relative_to = "tree_bcast"       # optional: the growth is that of the quotient of both
accepted = {"p=2,n=64" = 0.1}    # optional: values of a campaign that was accepted

[[expect]]
limit = "time at p=65536 < 2 s"  # of callpath; "memory_rss per node with 8 ranks < 24 GB"
callpath = "main"

[[expect]]
rule = "MPI_Allreduce <= MPI_Reduce + MPI_Bcast"
at = "p=65536"                   # optional, else 64 times the ranks, at most 65,536

[[expect]]
callpath = "exchange"
classes = "one class only"       # or "corner within 10 % of inner"
"""

import fnmatch
import re
import tomllib
from dataclasses import dataclass, replace
from typing import Any

from insitu.entities import ARROW, MEMORY_RSS, TIME, CallPath, parse_assignment
from insitu.errors import UsageError
from insitu.expectations.accepted_values import AcceptedValues, At
from insitu.expectations.ceilings import Ceiling, parse_ceiling
from insitu.expectations.guidelines import Guideline, parse_guideline
from insitu.expectations.limits import Expectation, expect
from insitu.expectations.uniformity import ClassExpectation, parse_class_rule

ACCEPTED = "accepted"
KINDS = ("growth", "limit", "rule", "classes")
OTHER_KEYS = {
    "growth": {"callpath", "metric", "deviation", "search", "class", "relative_to", ACCEPTED},
    "limit": {"callpath", "metric", "class"},
    "rule": {"metric", "at"},
    "classes": {"callpath", "metric"},
}
LITMUS = "litmus"
MEMORY = "memory"  # short for MEMORY_RSS in a limit
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*expect[ \t]*\]\]", re.M)
Subject = Expectation | Ceiling | Guideline | ClassExpectation


@dataclass(frozen=True, slots=True)
class Entry:
    """One expectation, and the series that it is about.

    Attributes:
        callpath: a pattern, or a call path if `is_exact`.
        metric: name of the metric.
        subject: what is expected.
        behaviour: name of the behaviour class, "" for all.
        at: where a rule is judged, () for the default.
        line: in the file of expectations, 0 without a file.
        is_exact: `callpath` is not a pattern.
        is_litmus: it tests the machine; the others of its metric depend on it.
        reference: pattern of the call paths whose values divide those of the series, "" for none.
        accepted: values of a campaign that was accepted, by their coordinates. Growth that the
            values now do not show beside them is no violation.
    """

    callpath: str
    metric: str
    subject: Subject
    behaviour: str = ""
    at: At = ()
    line: int = 0
    is_exact: bool = False
    is_litmus: bool = False
    reference: str = ""
    accepted: AcceptedValues = ()

    def is_about(self, callpath: CallPath) -> bool:
        """Whether the pattern matches a call path: its function, its end, or all of it."""
        text = str(callpath)
        if self.is_exact:
            return text == self.callpath
        if ARROW not in self.callpath:
            return fnmatch.fnmatchcase(callpath.name, self.callpath)
        patterns = (self.callpath, f"*{ARROW}{self.callpath}")
        return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


def load_entries(path: str) -> list[Entry]:
    """Read a file of expectations.

    Raises:
        UsageError: the file cannot be read, or an entry is invalid; the message has file and line.
    """
    try:
        with open(path, "rb") as stream:
            raw = stream.read()
        text = raw.decode("utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error

    unknown = sorted(set(data) - {"expect"})
    if unknown:
        raise UsageError(f"{path}: unknown key '{unknown[0]}'; write entries under [[expect]]")
    entries = data.get("expect", [])
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: there is no expectation; write entries under [[expect]]")

    # tomllib does not return line numbers: count the lines before each header.
    lines = [text.count("\n", 0, header.start()) + 1 for header in _HEADER.finditer(text)]
    lines += [0] * (len(entries) - len(lines))

    parsed = []
    for entry, line in zip(entries, lines, strict=False):
        try:
            parsed.append(_parse_entry(entry, line))
        except UsageError as error:
            raise UsageError(f"{path}:{line}: {error}") from error

    return parsed


def entry_of(callpath: str, metric: str, subject: Subject, *, behaviour: str = "") -> Entry:
    """Return an entry without a file; if `metric` is "", a limit's text determines it."""
    if isinstance(subject, Ceiling) and not metric:
        metric = MEMORY_RSS.name if subject.metric == MEMORY else subject.metric
    return Entry(callpath, metric or TIME.name, subject, behaviour)


def _parse_entry(entry: object, line: int) -> Entry:
    if not isinstance(entry, dict):
        raise UsageError("an entry must be a table, [[expect]]")
    kinds = [kind for kind in KINDS if kind in entry]
    known = {*KINDS, LITMUS}.union(*OTHER_KEYS.values())
    unknown = next((key for key in entry if key not in known), None)
    if len(kinds) != 1 and unknown is not None:
        raise UsageError(f"unknown key '{unknown}'; an entry has one of {', '.join(KINDS)}")
    if len(kinds) != 1:
        raise UsageError(
            f"an entry needs exactly one of {', '.join(KINDS)}; this one has"
            f" {' and '.join(kinds) or 'none'}"
        )

    kind = kinds[0]
    allowed = OTHER_KEYS[kind] | {kind, LITMUS}

    for key, value in entry.items():
        if key not in allowed:
            raise UsageError(
                f"'{key}' does not apply to {kind}; its keys are {', '.join(sorted(allowed))}"
            )
        if key == LITMUS:
            if not isinstance(value, bool):
                raise UsageError("litmus must be true or false")
        elif key == ACCEPTED:
            if "relative_to" in entry:
                raise UsageError("accepted does not apply to growth relative_to another function")
        elif not isinstance(value, str):
            raise UsageError(f'{key} must be text, as in {key} = "…"')

    subject = _parse_subject(kind, entry)
    if kind != "rule" and "callpath" not in entry:
        raise UsageError(f'{kind} needs the call paths it is about, as in callpath = "solve"')
    plain = entry_of(
        entry.get("callpath", ""),
        entry.get("metric", "" if kind == "limit" else TIME.name),
        subject,
        behaviour=entry.get("class", ""),
    )
    at = _parse_coordinate(entry.get("at", ""), "at")
    return replace(
        plain,
        at=at,
        line=line,
        is_litmus=entry.get(LITMUS, False),
        reference=entry.get("relative_to", ""),
        accepted=_parse_accepted(entry.get(ACCEPTED, {})),
    )


def _parse_subject(kind: str, entry: dict[str, Any]) -> Subject:  # Any: TOML
    text = entry[kind]
    if kind == "growth":
        return expect(text, deviation=entry.get("deviation"), search=entry.get("search"))
    if kind == "limit":
        return parse_ceiling(text)
    return parse_guideline(text) if kind == "rule" else parse_class_rule(text)


def _parse_coordinate(text: str, key: str) -> At:
    try:
        return tuple(parse_assignment(word) for word in text.split(",") if word.strip())
    except ValueError as error:
        raise UsageError(f"{key} = {error}") from error


def _parse_accepted(table: object) -> AcceptedValues:
    example = 'accepted = {"p=2" = 0.1, "p=4" = 0.2}'
    if not isinstance(table, dict):
        raise UsageError(f"accepted must be a table of values, as in {example}")
    for text, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"accepted: the value at {text} must be a number, as in {example}")
    return tuple((_parse_coordinate(text, ACCEPTED), float(value)) for text, value in table.items())
