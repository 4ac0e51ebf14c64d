"""Results of `insitu check` for other tools: JUnit XML, SARIF, Markdown, GitHub annotations."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from xml.etree import ElementTree

from insitu import __version__
from insitu.entities import finite
from insitu.errors import UsageError
from insitu.expectations.entries import Entry
from insitu.expectations.limits import Expectation
from insitu.expectations.result import Result, Status
from insitu.modeling.base import ALL
from insitu.units import percent
from insitu.whole_files import write_whole_file

MARKS = {
    Status.MET: "✔",
    Status.NEAR: "≈",
    Status.VIOLATED: "✘",
    Status.UNSETTLED: "?",
    Status.UNJUDGED: "–",
}
WORDS = {
    Status.MET: "met",
    Status.NEAR: "met approximately",
    Status.VIOLATED: "violated",
    Status.UNSETTLED: "undecided",
    Status.UNJUDGED: "not judged",
}
OPEN = (Status.VIOLATED, Status.UNSETTLED, Status.UNJUDGED)  # results that need attention
UNDECIDED = (Status.UNSETTLED, Status.UNJUDGED)  # results that neither pass nor fail
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {
    Status.VIOLATED: "error",
    Status.UNSETTLED: "note",
    Status.UNJUDGED: "note",
    Status.NEAR: "none",
}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Results and where they come from.

    expectations: path of the file of expectations, "" for a comparison with a baseline alone.
    impossible: entries that cannot be judged, such as one about a function that was not measured,
    each with the reason. A report without them would be that of a test that passed.
    """

    campaign: str
    expectations: str
    results: tuple[Result, ...]
    impossible: tuple[tuple[Entry, str], ...] = ()


def sentence(results: Sequence[Result], unjudged: int = 0) -> str:
    """Return how many expectations have each status: `3 met, 1 violated`.

    Args:
        results: of those that could be judged. unjudged: how many could not.
    """
    counts = Counter(result.status for result in results)
    counts[Status.UNJUDGED] += unjudged
    phrases = [f"{counts[status]} {word}" for status, word in WORDS.items() if counts[status]]
    return ", ".join(phrases) or "nothing was judged"


def table_cells(result: Result) -> tuple[str, ...]:
    """Return a row of a table: mark, metric, class, expected, found, δ, R², probability."""
    expected, found = result.kind, f"{result.expected}: {result.text}"
    if result.kind == "rule":
        found = result.text
    if result.verdict is not None:
        expected, found = result.expected, result.found
    return (
        MARKS[result.status],
        result.metric,
        result.behaviour,
        expected,
        found,
        result.divergence,
        "" if math.isnan(result.adjusted_r2) else f"{result.adjusted_r2:.2f}",
        share(result.probability),
    )


def describe(result: Result) -> str:
    """Return a result as a sentence that is complete without a table."""
    of_class = "" if result.behaviour == ALL else f" of class {result.behaviour}"
    expected = "" if result.kind in ("growth", "rule") else f"{result.expected}: "
    reason = describe_reason(result)
    return f"{result.subject}, {result.metric}{of_class}: {expected}{reason}"


def describe_reason(result: Result) -> str:
    """Return why a result is what it is, and what would help."""
    return f"{result.text}; {result.advice}" if result.advice else result.text


def share(probability: float) -> str:
    """Return a probability as text for a table; "" for NaN."""
    return "" if math.isnan(probability) else percent(probability)


def result_row(result: Result) -> dict[str, Any]:  # Any: JSON
    """Return a result as a JSON object."""
    settle = None
    if result.settling_point is not None:
        settle = {
            "at": dict(result.settling_point.at),
            "probability": result.settling_point.probability,
        }
    row: dict[str, Any] = {
        "callpath": result.subject,
        "metric": result.metric,
        "class": result.behaviour,
        "relative_to": result.entry.reference or None,
        "expected": result.expected,
        "found": result.found,
        "status": result.status.value,
        "text": result.text,
        "probability": finite(result.probability),
        "adjusted_r2": finite(result.adjusted_r2),
        "line": result.entry.line or None,
        "settle": settle,
    }
    verdict = result.verdict
    if verdict is not None:
        row |= {
            "match": verdict.match.value,
            "model": str(verdict.function),
            "divergence": result.divergence,
            "ranks": {rank.value: value for rank, value in verdict.shares.items()},
        }
    return row


def write_report(report: CheckReport, path: str) -> None:
    """Write a report in the format of the file name's suffix.

    Raises:
        UsageError: no format has this suffix, or the file cannot be written.
    """
    suffix = PurePath(path).suffix.lower()
    if suffix not in WRITERS:
        raise UsageError(
            f"{path}: no report has this suffix; the suffixes are {', '.join(WRITERS)}"
        )

    try:
        text = WRITERS[suffix](report)
        write_whole_file(path, lambda output: output.write(text.encode()))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def junit(report: CheckReport) -> str:
    """Return JUnit XML: violated expectations fail, undecided ones are skipped with the reason."""
    counts = Counter(result.status for result in report.results)
    totals = {
        "tests": str(len(report.results) + len(report.impossible)),
        "failures": str(counts[Status.VIOLATED]),
        "errors": str(len(report.impossible)),
        "skipped": str(sum(counts[status] for status in UNDECIDED)),
    }
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "insitu check", **totals})

    for result in report.results:
        of_class = "" if result.behaviour == ALL else f"of {result.behaviour}"
        name = " ".join(filter(None, (result.metric, of_class, result.expected)))
        attributes = {"classname": _escape_controls(result.subject), "name": _escape_controls(name)}
        attributes |= {"time": "0", **_source_line(report, result.entry)}
        case = ElementTree.SubElement(suite, "testcase", attributes)

        text = _escape_controls(describe(result))
        if result.status is Status.VIOLATED:
            ElementTree.SubElement(case, "failure", {"message": text}).text = text
        elif result.status in UNDECIDED:
            ElementTree.SubElement(case, "skipped", {"message": text})
        else:
            ElementTree.SubElement(case, "system-out").text = text

    for entry, reason in report.impossible:
        attributes = {"classname": _escape_controls(entry.callpath or "insitu"), "time": "0"}
        attributes |= {"name": _escape_controls(_entry_name(entry))}
        attributes |= _source_line(report, entry)
        case = ElementTree.SubElement(suite, "testcase", attributes)
        text = _escape_controls(reason)
        ElementTree.SubElement(case, "error", {"message": text}).text = text

    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def sarif(report: CheckReport) -> str:
    """Return SARIF 2.1.0, for the code scanning of GitHub and GitLab."""
    texts = {
        "insitu/violated": "Growth is not as expected",
        "insitu/unsettled": "The measurements do not decide yet",
        "insitu/not-judged": "The measurements cannot decide",
        "insitu/near": "Growth is within the limits of its expectation",
        "insitu/impossible": "The expectation cannot be judged",
    }
    rules = [{"id": kind, "shortDescription": {"text": text}} for kind, text in texts.items()]

    results = []
    for result in report.results:
        if result.status is Status.MET:
            continue
        identity = (result.subject, result.metric, result.behaviour, result.expected)
        row: dict[str, Any] = {
            "ruleId": f"insitu/{result.status.value.replace(' ', '-')}",
            "level": LEVELS[result.status],
            "message": {"text": describe(result)},
            "locations": [_sarif_location(report, result.entry)],
            "partialFingerprints": {"expectation": "|".join(identity)},
        }
        results.append(row)

    for entry, reason in report.impossible:
        identity = (entry.callpath, entry.metric, entry.behaviour, _entry_name(entry))
        row = {
            "ruleId": "insitu/impossible",
            "level": "error",
            "message": {"text": reason},
            "locations": [_sarif_location(report, entry)],
            "partialFingerprints": {"expectation": "|".join(identity)},
        }
        results.append(row)

    driver = {"name": "insitu", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    document = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1) + "\n"


def markdown(report: CheckReport) -> str:
    """Return a table as in [VAL], tables 2 and 3, and a list of the results that need attention."""
    counts = sentence(report.results, len(report.impossible))
    lines = [
        f"**{counts}** ({_markdown_cell(report.campaign)})",
        "",
        "| | call path | metric | class | expected | found | δ | R² | sure |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in report.results:
        mark, *others = table_cells(result)
        cells = [_markdown_cell(text) for text in (mark, result.subject, *others)]
        lines.append(f"| {' | '.join(cells)} |")

    open_results = [result for result in report.results if result.status in OPEN]
    if open_results or report.impossible:
        lines.append("")

    for result in open_results:
        lines.append(f"- {MARKS[result.status]} {_markdown_cell(describe(result))}")
    for _, reason in report.impossible:
        lines.append(f"- {MARKS[Status.UNJUDGED]} not judged: {_markdown_cell(reason)}")
    return "\n".join(lines) + "\n"


def annotations(report: CheckReport) -> Iterator[str]:
    """Yield workflow commands of GitHub Actions, shown at the expectation in a pull request.

    The last line is a summary.
    """
    commands = {
        Status.VIOLATED: "error",
        Status.UNSETTLED: "warning",
        Status.UNJUDGED: "warning",
        Status.NEAR: "notice",
    }
    for result in report.results:
        command = commands.get(result.status)
        if command is None:
            continue
        line = _source_line(report, result.entry)
        yield _annotation(command, WORDS[result.status], line, describe(result))
    for entry, reason in report.impossible:
        yield _annotation("error", "not judged", _source_line(report, entry), reason)
    yield sentence(report.results, len(report.impossible))


def _annotation(command: str, title: str, line: dict[str, str], text: str) -> str:
    properties = {"title": f"insitu: {title}", **line}
    listed = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    return f"::{command} {listed}::{_escape_message(text)}"


WRITERS: dict[str, Callable[[CheckReport], str]] = {".xml": junit, ".sarif": sarif, ".md": markdown}


def _entry_name(entry: Entry) -> str:
    """The name of an entry that has no result: its metric, and what is expected."""
    subject = entry.subject
    expected = str(subject) if isinstance(subject, Expectation) else subject.text
    return " ".join(filter(None, (entry.metric, expected)))


def _source_line(report: CheckReport, entry: Entry) -> dict[str, str]:
    """Return file and line of the expectation, {} if it comes from no file."""
    if not report.expectations or not entry.line:
        return {}
    return {"file": report.expectations, "line": str(entry.line)}


def _sarif_location(report: CheckReport, entry: Entry) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": report.expectations or report.campaign}}
    if entry.line:
        location["region"] = {"startLine": entry.line}
    return {"physicalLocation": location}


def _escape_controls(text: str) -> str:
    """Replace characters that XML forbids by escape sequences."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _markdown_cell(text: str) -> str:
    escaped = _escape_controls(text).replace("\\", "\\\\")
    return escaped.replace("|", "\\|").replace("*", "\\*")


def _escape_message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_message(text).replace(":", "%3A").replace(",", "%2C")
