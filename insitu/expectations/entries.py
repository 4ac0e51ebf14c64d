"""expectations.toml: what the user expects of the growth of a program.

[[expect]]
callpath = "solve"               # a function, or the end of a call path; * and ? match
metric = "time"                  # the default
growth = "O(n log n)"            # "<= O(n log n)": less is welcome
deviation = "sqrt(n)"            # optional, else the leading exponent halved
search = "n^(2/7), n^5"          # optional, what is looked for beside the ruler

[[expect]]
limit = "time at p=65536 < 2 s"  # of callpath; "memory_rss per node with 8 ranks < 24 GB"
callpath = "main"

[[expect]]
rule = "MPI_Allreduce <= MPI_Reduce + MPI_Bcast"
at = "p=65536"                   # optional, else 16 times the largest measured

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
from insitu.expectations.ceilings import Ceiling, parse_ceiling
from insitu.expectations.guidelines import Guideline, parse_guideline
from insitu.expectations.limits import Expectation, expect
from insitu.expectations.uniformity import ClassExpectation, parse_class_rule

KINDS = ("growth", "limit", "rule", "classes")
BESIDE = {
    "growth": {"callpath", "metric", "deviation", "search", "class"},
    "limit": {"callpath", "metric", "class"},
    "rule": {"metric", "at"},
    "classes": {"callpath", "metric"},
}
MEMORY = "memory"  # what people call MEMORY_RSS in a limit
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*expect[ \t]*\]\]", re.M)
Subject = Expectation | Ceiling | Guideline | ClassExpectation
At = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One expectation: of which call paths (a pattern) and metric, and what.

    behaviour: the only class it is about, empty for all; at: where a rule is judged; line: in its
    file, 0 where there is none; is_exact: the call path is one, and no pattern.
    """

    callpath: str
    metric: str
    subject: Subject
    behaviour: str = ""
    at: At = ()
    line: int = 0
    is_exact: bool = False

    def is_about(self, callpath: CallPath) -> bool:
        """Whether the pattern names a call path: its function, its end, or all of it."""
        text = str(callpath)
        if self.is_exact:
            return text == self.callpath
        if ARROW not in self.callpath:
            return fnmatch.fnmatchcase(callpath.name, self.callpath)
        patterns = (self.callpath, f"*{ARROW}{self.callpath}")
        return any(fnmatch.fnmatchcase(text, one) for one in patterns)


def load_entries(path: str) -> list[Entry]:
    """Read a file of expectations.

    Raises:
        UsageError: it cannot be read, or an entry makes no sense; the text names file and line.
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
        raise UsageError(f"{path}: nothing is expected; write entries under [[expect]]")
    lines = [text.count("\n", 0, found.start()) + 1 for found in _HEADER.finditer(text)]
    lines += [0] * (len(entries) - len(lines))
    answer = []
    for entry, line in zip(entries, lines, strict=False):
        try:
            answer.append(_entry(entry, line))
        except UsageError as error:
            raise UsageError(f"{path}:{line}: {error}") from error
    return answer


def entry_of(callpath: str, metric: str, subject: Subject, *, behaviour: str = "") -> Entry:
    """An entry without a file; a limit that names a metric is about that one."""
    if isinstance(subject, Ceiling) and not metric:
        metric = MEMORY_RSS.name if subject.metric == MEMORY else subject.metric
    return Entry(callpath, metric or TIME.name, subject, behaviour)


def _entry(entry: object, line: int) -> Entry:
    if not isinstance(entry, dict):
        raise UsageError("an entry is a table, [[expect]]")
    kinds = [kind for kind in KINDS if kind in entry]
    if len(kinds) != 1:
        raise UsageError(f"say one of {', '.join(KINDS)}, not {' and '.join(kinds) or 'none'}")
    kind = kinds[0]
    allowed = BESIDE[kind] | {kind}
    for key, value in entry.items():
        if key not in allowed:
            raise UsageError(
                f"'{key}' means nothing beside {kind}; there are {', '.join(sorted(allowed))}"
            )
        if not isinstance(value, str):
            raise UsageError(f'{key} is not a text, as in {key} = "…"')
    subject = _subject(kind, entry)
    if kind != "rule" and "callpath" not in entry:
        raise UsageError(f'say which call paths {kind} is about, as in callpath = "solve"')
    plain = entry_of(
        entry.get("callpath", ""),
        entry.get("metric", "" if kind == "limit" else TIME.name),
        subject,
        behaviour=entry.get("class", ""),
    )
    return replace(plain, at=_place(entry.get("at", "")), line=line)


def _subject(kind: str, entry: dict[str, Any]) -> Subject:  # Any: TOML
    text = entry[kind]
    if kind == "growth":
        return expect(text, deviation=entry.get("deviation"), search=entry.get("search"))
    if kind == "limit":
        return parse_ceiling(text)
    return parse_guideline(text) if kind == "rule" else parse_class_rule(text)


def _place(text: str) -> At:
    try:
        return tuple(parse_assignment(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise UsageError(f"at = {error}") from error
