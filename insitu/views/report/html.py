"""A report as one HTML page: nothing is loaded from elsewhere, and no script runs."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from insitu import __version__
from insitu.analysis.callpaths import last_frames
from insitu.analysis.shares import Estimate, trust_level
from insitu.analysis.summary import (
    CONFIDENCE,
    RankPartition,
    SeriesGrowth,
    Summary,
    coordinate_text,
)
from insitu.entities import ARROW, CallPath, number
from insitu.modeling.base import SeriesModel
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.report.chart import CHART_STYLE, legend, rank_strip, series_chart, shares_chart
from insitu.views.report.words import (
    BROKEN,
    TRUST,
    bounds,
    factor,
    headlines,
    next_lead,
    next_rows,
    ranks_told,
    share_then,
    state_of,
    trust_reasons,
    trust_rows,
)

CHARTS = 12  # call paths with a picture, the dearest now or at the target
FEW_RUNS = 20  # which are shown, and printed, without asking
LAST_FRAMES = 70
MOST_MODELS = 2_000  # rows of the last table; `insitu models` and `insitu export` have all
ESCAPED_ARROW = escape(ARROW)
WITH_BREAK = f"{ESCAPED_ARROW}<wbr>"  # where a long call path goes on in the next line
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --dim: #5f6670; --paper: #fff; --line: #d9dde2;
  --card: #f6f7f9; --a: #0072b2; --b: #d55e00; --c: #009e73; --d: #b0588f; --e: #b87d00;
  --f: #2f8fc4; --g: #333; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --dim: #9aa3ad; --paper: #14171a;
  --line: #343a41; --card: #1c2025; --a: #56b4e9; --b: #ff8a3d; --c: #2fc49a; --d: #e29cc6;
  --e: #e6b450; --f: #8ecbf0; --g: #ccc; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--ink);
  background: var(--paper); max-width: 1080px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 2px; } h2 { font-size: 19px; margin: 34px 0 8px; }
h3 { font-size: 14px; margin: 18px 0 4px; overflow-wrap: anywhere; break-after: avoid; }
.chart h3 { margin-top: 0; } .strip { break-after: avoid; }
svg.wide { min-width: 560px; } ul { padding-left: 18px; }
p { margin: 6px 0; max-width: 76ch; } .dim { color: var(--dim); }
.heads { background: var(--card); border-left: 4px solid var(--a); padding: 10px 18px;
  margin: 16px 0; } .heads li { margin: 5px 0; } .heads ul { margin: 0; padding-left: 18px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word; }
td code { overflow-wrap: anywhere; display: inline-block; min-width: 10em; }
.nowrap { white-space: nowrap; }
th { font-weight: 600; color: var(--dim); font-size: 13px; white-space: nowrap; }
.n { text-align: right; white-space: nowrap; } th.n { text-align: right; }
code { font: 13px/1.4 ui-monospace, "DejaVu Sans Mono", monospace; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(320px, 1fr)); gap: 16px; }
.chart { border: 1px solid var(--line); padding: 10px 12px; break-inside: avoid; min-width: 0; }
.strip { margin: 6px 0; } .tag { border: 1px solid var(--line); border-radius: 3px;
  padding: 0 5px; font-size: 12px; white-space: nowrap; } .bad { color: var(--b); }
summary { cursor: pointer; padding: 4px 0; } .scroll { overflow-x: auto; }
@media print { :root { color-scheme: light; --ink: #000; --dim: #444; --paper: #fff;
  --line: #bbb; --card: #fff; --a: #0072b2; --b: #d55e00; --c: #009e73; --d: #b0588f;
  --e: #b87d00; --f: #2f8fc4; --g: #333; }
  body { max-width: none; padding: 0; font-size: 11px; } code { font-size: 9px; }
  table, th { font-size: 9px; } th, td { padding: 3px 6px 3px 0; } th { white-space: normal; }
  .scroll { overflow: visible; } td code { min-width: 8em; } h2 { break-after: avoid; }
  h1 { font-size: 20px; } h2 { font-size: 14px; margin-top: 20px; } h3 { font-size: 11px; }
  .tag { font-size: 8px; } tr, .strip { break-inside: avoid; }
  .charts { grid-template-columns: 1fr 1fr; } svg.wide { min-width: 0; } svg, .share, .band, rect {
  print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
@page { margin: 15mm; }
"""


def html(summary: Summary, axis: str, made: str) -> str:
    """The whole report.

    Args:
        summary: what to tell.
        axis: the name of the parameter that the target moves, with its unit.
        made: when, for people.
    """
    title = _text(summary.title)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}: how it scales</title><style>{STYLE}{CHART_STYLE}</style></head><body>",
        f"<h1>{title}: how it scales</h1>",
        f'<p class="dim">{_text(_measured(summary))}. Made by insitu {__version__}, '
        f"{_text(made)}.</p>",
        _heads(summary),
        _dominating(summary, axis),
        _growing(summary),
        _partings(summary),
        _judged(summary),
        _next(summary),
        _trusted(summary),
        _charts(summary, axis),
        _findings(summary),
        _runs(summary),
        _models(summary),
        "</body></html>\n",
    ]
    return "".join(parts)


def _measured(summary: Summary) -> str:
    largest = coordinate_text(summary.parameters, summary.largest)
    target = coordinate_text(summary.parameters, summary.target)
    many = len(summary.runs)
    return (
        f"{many} run{'s' * (many != 1)} up to {largest}, looking ahead to {target}, "
        f"{number(round(summary.extrapolation_factor, 2))} times the largest measured"
    )


def _heads(summary: Summary) -> str:
    lines = "".join(f"<li>{_text(line)}</li>" for line in headlines(summary))
    return f'<section class="heads"><ul>{lines}</ul></section>'


def _judged(summary: Summary) -> str:
    title = "<h2>What was expected, and what is broken</h2>"
    if not summary.expectations:
        return (
            f"{title}<p>Nothing was expected. A file <code>expectations.toml</code> in the campaign"
            ", or <code>--expect FILE</code>, says how call paths should grow.</p>"
        )
    rows = [
        (
            f"<b{' class=bad' if one.mark == BROKEN else ''}>{_text(one.mark)}</b>",
            _path(one.subject),
            _text(one.series),
            _text(one.expected),
            _text(f"{one.word}: {one.text}"),
            _text(one.sure),
        )
        for one in summary.expectations
    ]
    head = ("", "call path", "metric", "expected", "what became of it", "sure")
    return title + _table(head, rows, 5)


def _next(summary: Summary) -> str:
    found = summary.proposals
    title = "<h2>What to measure next</h2>"
    if found is None:
        return f"{title}<p>Run times are not known, so that no run can be weighed.</p>"
    lead = f"<p>{_text(next_lead(found))}</p>"
    if not found.runs:
        return title + lead
    rows = [tuple(map(_text, row)) for row in next_rows(found)]
    head = ("run", "takes about", "on all ranks", "uncertain then", "why")
    return f"{title}{lead}{_table(head, rows, 1, 4)}"


def _trusted(summary: Summary) -> str:
    lines = "".join(f"<li>{_text(line)}</li>" for line in trust_reasons(summary))
    rows = [tuple(map(_text, row)) for row in trust_rows(summary)]
    then = coordinate_text(summary.parameters, summary.target)
    return f"<h2>How far this is to be trusted</h2><ul>{lines}</ul>" + _table(
        (f"models at {then}", *TRUST), rows, 1
    )


def _dominating(summary: Summary, axis: str) -> str:
    if not summary.shares:
        return ""
    target = coordinate_text(summary.parameters, summary.target)
    rows = [
        (
            _path(str(part.callpath)),
            percent(part.now),
            *share_then(part),
        )
        for part in summary.shares[:CHARTS]
    ]
    found = summary.bands
    picture = "" if found is None else shares_chart(found.names, found.at, found.shares, axis)
    picture = f'<div class="scroll">{picture}</div>'
    head = ("call path", "now", "then", "at 95 %")
    return (
        f"<h2>What will dominate at {_text(target)}</h2>"
        f'<p class="dim">Shares of {_text(summary.cost)} over all ranks. The bounds move one call '
        f"path within its interval while the others stay.</p>{picture}{_table(head, rows, 1)}"
    )


def _growing(summary: Summary) -> str:
    parts = [f"<h2>What grows fastest</h2>{_growths(summary, summary.growing)}"]
    if not summary.growing:
        parts.append(
            "<p>Nothing that matters for the cost is sure to grow: no lower bound at the target "
            "lies above what was measured.</p>"
        )
    if summary.others:
        parts.append("<h2>Counts, bytes, memory</h2>" + _growths(summary, summary.others))
    return "".join(parts)


def _growths(summary: Summary, rows: Sequence[SeriesGrowth]) -> str:
    if not rows:
        return ""
    now, then = (
        coordinate_text(summary.parameters, at) for at in (summary.largest, summary.target)
    )
    head = ("call path", "metric", "class", "model", f"at {now}", f"at {then}", "95 %", "", "trust")
    cells = [
        (
            _path(str(one.series.key.callpath)),
            _text(one.series.key.metric),
            _text(one.series.key.behaviour),
            f"<code>{_text(str(one.series.model))}</code>",
            _value(one.now, one),
            _value(one.then, one),
            _text(bounds(one.then, one.series.metric.unit)),
            f"× {factor(one.factor)}",
            _trust(one.then),
        )
        for one in rows
    ]
    return _table(head, cells, 4, 8)


def _partings(summary: Summary) -> str:
    if not summary.partitions:
        return "<h2>What differs between ranks</h2><p>All ranks behave alike.</p>"
    return "<h2>What differs between ranks</h2>" + "".join(map(_parting, summary.partitions))


def _parting(one: RankPartition) -> str:
    rows = [
        (
            f'<span class="nowrap"><svg class="key" viewBox="0 0 12 12"><rect class="c{index % 7}" '
            f'width="12" height="12" style="fill:var(--k)"/></svg>{_text(line.name)}</span>',
            str(line.ranks),
            ranks_told(line.ranks_then),
            "–" if line.growth is None else _value(line.growth.now, line.growth),
            "–" if line.growth is None else _value(line.growth.then, line.growth),
            "–" if line.growth is None else f"<code>{_text(str(line.growth.series.model))}</code>",
            "–" if line.growth is None else _trust(line.growth.then),
        )
        for index, line in enumerate(one.classes)
    ]
    head = ("class", "ranks", "ranks then", "each now", "each then", "model", "trust")
    names = [line.name for line in one.classes]
    return (
        f"<h3>{_path(str(one.callpath))} {_text(one.metric.name)} at {_text(one.run)}</h3>"
        f"{rank_strip(one.labels, names)}{_table(head, rows, 1, 5)}"
    )


def _findings(summary: Summary) -> str:
    if not summary.findings:
        return ""
    grouped: dict[str, list[str]] = {}
    for finding in summary.findings:
        grouped.setdefault(finding.code, []).append(finding.text)
    parts = ["<h2>Findings</h2>"]
    for code, texts in grouped.items():
        lines = "".join(f"<li>{_text(text)}</li>" for text in texts)
        tag = f'<span class="tag">{_text(code)}</span>'
        if len(texts) <= 3:
            parts.append(f"<p>{tag}</p><ul>{lines}</ul>")
        else:
            parts.append(
                f"<details open><summary>{tag} {len(texts)} of them</summary>"
                f"<ul>{lines}</ul></details>"
            )
    return "".join(parts)


def _charts(summary: Summary, axis: str) -> str:
    fields: dict[CallPath, list[SeriesModel]] = {}
    for one in summary.series:
        if one.series.key.metric == summary.cost:
            fields.setdefault(one.series.key.callpath, []).append(one.series)
    later = [part.callpath for part in summary.shares[: CHARTS // 2] if not part.is_guess]
    chosen = list(dict.fromkeys([*later, *fields]))[:CHARTS]
    cards = [
        f'<div class="chart"><h3>{_path(str(path))}</h3>'
        f"{series_chart(fields[path], summary.target, axis)}{legend(fields[path])}</div>"
        for path in chosen
        if path in fields
    ]
    return (
        f"<h2>Measured points and models of {_text(summary.cost)}</h2>"
        f'<p class="dim">Shaded: where a measurement lies with {percent(CONFIDENCE)} probability. '
        f'Dashed: beyond what was measured.</p><div class="charts">{"".join(cards)}</div>'
    )


def _runs(summary: Summary) -> str:
    rows = [
        (
            _text(str(run.key)),
            _text(state_of(run)),
            f"{max(run.ended_at - run.started_at, 0):.1f} s",
        )
        for run in summary.runs
    ]
    table = _table(("run", "state", "took"), rows, 2)
    is_open = " open" * (len(rows) <= FEW_RUNS)
    return f"<h2>Runs</h2><details{is_open}><summary>{len(rows)} runs</summary>{table}</details>"


def _models(summary: Summary) -> str:
    rows = [
        (
            percent(one.share),
            _path(str(one.series.key.callpath)),
            _text(one.series.key.metric),
            _text(one.series.key.behaviour),
            f"<code>{_text(str(one.series.model))}</code>",
            "–" if math.isnan(one.series.model.smape) else percent(one.series.model.smape / 100),
            _value(one.then, one),
            _text(bounds(one.then, one.series.metric.unit)),
        )
        for one in summary.series[:MOST_MODELS]
    ]
    then = coordinate_text(summary.parameters, summary.target)
    head = ("share", "call path", "metric", "class", "model", "error", f"at {then}", "95 %")
    return (
        f"<h2>All models</h2><details><summary>{len(rows)} of {len(summary.series)} models, "
        "costliest first</summary>"
        f"{_table(head, rows, 5)}</details>"
    )


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 99, until: int = 99
) -> str:
    """Cells are HTML already; columns from `numbers` on, before `until`, are aligned right."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if numbers <= i < until else ''}>{cell}</{tag}>"
            for i, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    heads = line([_text(cell) for cell in head], "th")
    return (
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _trust(found: Estimate) -> str:
    return f'<span class="tag">{trust_level(found)}</span>'


def _value(found: Estimate, one: SeriesGrowth) -> str:
    return _text(quantity(found.value, one.series.metric.unit))


def _path(callpath: str) -> str:
    """A call path: its end, the whole where the pointer rests."""
    whole = escape(printable(callpath), quote=True)
    shown = escape(last_frames(callpath, LAST_FRAMES)).replace(ESCAPED_ARROW, WITH_BREAK)
    return f'<code title="{whole}">{shown}</code>'


def _text(text: str) -> str:
    return escape(printable(text), quote=True)
