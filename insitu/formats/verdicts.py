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
from insitu.errors import UsageError
from insitu.expectations.assess import Result, Status
from insitu.formats.table import finite
from insitu.modeling.classes.match import ALL
from insitu.units import percent

MARKS = {Status.MET: "✔", Status.NEAR: "≈", Status.VIOLATED: "✘", Status.UNSETTLED: "?"}
WORDS = {
    Status.MET: "met",
    Status.NEAR: "met approximately",
    Status.VIOLATED: "violated",
    Status.UNSETTLED: "cannot be told yet",
}
OPEN = (Status.VIOLATED, Status.UNSETTLED)  # what a person must read about
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Status.VIOLATED: "error", Status.UNSETTLED: "note", Status.NEAR: "none"}


@dataclass(frozen=True, slots=True)
class Report:
    """Results with where they come from; expectations: the file, empty for a baseline alone."""

    campaign: str
    expectations: str
    results: tuple[Result, ...]


def sentence(results: Sequence[Result]) -> str:
    """How many expectations are met: `3 met, 1 violated`."""
    counts = Counter(one.status for one in results)
    parts = [f"{counts[status]} {word}" for status, word in WORDS.items() if counts[status]]
    return ", ".join(parts) or "nothing was judged"


def table_cells(one: Result) -> tuple[str, ...]:
    """A result as a row of a table: mark, metric, class, expected, found, δ, R², sure."""
    is_growth = one.verdict is not None
    return (
        MARKS[one.status],
        one.metric,
        one.behaviour,
        one.expected if is_growth else one.kind,
        one.found
        if is_growth
        else f"{one.expected}: {one.text}"
        if one.kind != "rule"
        else one.text,
        one.divergence,
        "" if math.isnan(one.adjusted_r2) else f"{one.adjusted_r2:.2f}",
        share(one.probability),
    )


def describe(one: Result) -> str:
    """A result as a sentence that needs no table."""
    of_class = "" if one.behaviour == ALL else f" of class {one.behaviour}"
    expected = "" if one.kind in ("growth", "rule") else f"{one.expected}: "
    advice = f"; {one.advice}" if one.advice else ""
    return f"{one.subject}, {one.metric}{of_class}: {expected}{one.text}{advice}"


def share(probability: float) -> str:
    """A probability for a table; empty where there is none."""
    return "" if math.isnan(probability) else percent(probability)


def result_row(one: Result) -> dict[str, Any]:  # Any: JSON
    """One result as JSON can hold it."""
    verdict = one.verdict
    row: dict[str, Any] = {
        "callpath": one.subject,
        "metric": one.metric,
        "class": one.behaviour,
        "expected": one.expected,
        "found": one.found,
        "status": one.status.value,
        "text": one.text,
        "probability": finite(one.probability),
        "adjusted_r2": finite(one.adjusted_r2),
        "line": one.entry.line or None,
        "settle": None
        if one.settling_point is None
        else {"at": dict(one.settling_point.at), "probability": one.settling_point.probability},
    }
    if verdict is not None:
        row |= {
            "match": verdict.match.value,
            "model": str(verdict.function),
            "divergence": one.divergence,
            "ranks": {rank.value: value for rank, value in verdict.shares.items()},
        }
    return row


def write_report(report: Report, path: str) -> None:
    """Write a report in the format that the end of its name says.

    Raises:
        UsageError: no format has this end, or the file cannot be written.
    """
    suffix = PurePath(path).suffix.lower()
    if suffix not in WRITERS:
        raise UsageError(f"{path}: end it in one of {', '.join(WRITERS)}")
    try:
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(WRITERS[suffix](report))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def junit(report: Report) -> str:
    """JUnit XML: violated expectations fail, doubtful ones are skipped with the reason."""
    counts = Counter(one.status for one in report.results)
    numbers = {
        "tests": str(len(report.results)),
        "failures": str(counts[Status.VIOLATED]),
        "errors": "0",
        "skipped": str(counts[Status.UNSETTLED]),
    }
    top = ElementTree.Element("testsuites", numbers)
    suite = ElementTree.SubElement(top, "testsuite", {"name": "insitu check", **numbers})
    for one in report.results:
        name = " ".join(part for part in (one.metric, _class(one), one.expected) if part)
        named = {"classname": _legal(one.subject), "name": _legal(name), "time": "0"}
        if report.expectations and one.entry.line:
            named |= {"file": report.expectations, "line": str(one.entry.line)}
        case = ElementTree.SubElement(suite, "testcase", named)
        text = _legal(describe(one))
        if one.status is Status.VIOLATED:
            ElementTree.SubElement(case, "failure", {"message": text}).text = text
        elif one.status is Status.UNSETTLED:
            ElementTree.SubElement(case, "skipped", {"message": text})
        else:
            ElementTree.SubElement(case, "system-out").text = text
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def sarif(report: Report) -> str:
    """SARIF 2.1.0, for the code scanning of forges."""
    rules = [
        {"id": kind, "shortDescription": {"text": text}}
        for kind, text in (
            ("insitu/violated", "Growth is not as expected"),
            ("insitu/unsettled", "The measurements do not tell yet"),
            ("insitu/near", "Growth is within the limits of its expectation"),
        )
    ]
    results = []
    for one in report.results:
        if one.status is Status.MET:
            continue
        result: dict[str, Any] = {
            "ruleId": f"insitu/{one.status.value}",
            "level": LEVELS[one.status],
            "message": {"text": describe(one)},
            "locations": [_location(report, one)],
            "partialFingerprints": {
                "expectation": f"{one.subject}|{one.metric}|{one.behaviour}|{one.expected}"
            },
        }
        results.append(result)
    driver = {"name": "insitu", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def markdown(report: Report) -> str:
    """A table as in [VAL], tables 2 and 3."""
    lines = [
        f"**{sentence(report.results)}** ({_cell(report.campaign)})",
        "",
        "| | call path | metric | class | expected | found | δ | R² | sure |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in report.results:
        mark, *others = table_cells(one)
        lines.append(f"| {' | '.join(map(_cell, (mark, one.subject, *others)))} |")
    if doubtful := [one for one in report.results if one.status in OPEN]:
        lines += ["", *(f"- {MARKS[one.status]} {_cell(describe(one))}" for one in doubtful)]
    return "\n".join(lines) + "\n"


def annotations(report: Report) -> Iterator[str]:
    """Workflow commands of GitHub Actions, which show beside the expectation in a pull request."""
    words = {Status.VIOLATED: "error", Status.UNSETTLED: "warning", Status.NEAR: "notice"}
    for one in report.results:
        if one.status not in words:
            continue
        properties = {"title": f"insitu: {WORDS[one.status]}"}
        if report.expectations and one.entry.line:
            properties |= {"file": report.expectations, "line": str(one.entry.line)}
        listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
        yield f"::{words[one.status]} {listed}::{_escaped(describe(one))}"
    yield sentence(report.results)


WRITERS: dict[str, Callable[[Report], str]] = {".xml": junit, ".sarif": sarif, ".md": markdown}


def _class(one: Result) -> str:
    return "" if one.behaviour == ALL else f"of {one.behaviour}"


def _location(report: Report, one: Result) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": report.expectations or report.campaign}}
    if one.entry.line:
        place["region"] = {"startLine": one.entry.line}
    return {"physicalLocation": place}


def _legal(text: str) -> str:
    """Characters that XML forbids, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _cell(text: str) -> str:
    return _legal(text).replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*")


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
