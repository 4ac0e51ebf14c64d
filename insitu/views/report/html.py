"""The report as one HTML page. It loads nothing from elsewhere and runs no script."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from insitu import __version__
from insitu.analysis.callpaths import last_frames
from insitu.analysis.class_costs import CONFIDENCE
from insitu.analysis.summary import (
    MEANS_ONLY,
    RankPartition,
    SeriesGrowth,
    Summary,
    coordinate_text,
)
from insitu.entities import ARROW, CallPath, number
from insitu.modeling.base import SeriesModel
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.report.chart import (
    CHART_STYLE,
    describe_chart,
    legend,
    rank_strip,
    series_chart,
    shares_chart,
)
from insitu.views.report.diagnosis import DIAGNOSIS_STYLE, diagnosis_section
from insitu.views.report.sentences import (
    CROWDED_GROWTH,
    TRUST_LEVELS,
    VIOLATED,
    describe_state,
    format_bounds,
    format_rank_count,
    growth_factor,
    has_crowded_cost,
    headlines,
    listed_shares,
    predicted_share,
    proposal_rows,
    proposals_lead,
    subtitle,
    target_value,
    trust_reasons,
    trust_rows,
    unclear_growth,
)

# A campaign of 16 runs is at most four printed pages: a browser prints nothing that is folded.
OPEN_CHARTS = 2
NO_CLASS_MODELS = "These classes were measured on too few scales for models of their own."
OPEN_PARTITIONS = 1  # call paths whose classes are shown
OPEN_ROWS = 5  # of a table
OPEN_CODES = 3  # of findings
MAX_CHARTS = 12  # call paths with a plot: the most expensive ones now or at the target
UNFOLDED_RUNS = 8  # up to this number, the list of runs is open
PATH_WIDTH = 70
UNFOLDED_FINDINGS = 3  # up to this number, findings of a code are not folded
NO_NUMBERS = 99  # a column that no table has
MAX_MODELS = 2_000  # rows of the last table; `insitu models` and `insitu export` list all
ESCAPED_ARROW = escape(ARROW)
WITH_BREAK = f"{ESCAPED_ARROW}<wbr>"  # lets a long call path continue on the next line
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
.reason { display: inline-block; max-width: 11em; white-space: normal; }
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


def html(summary: Summary, axis: str, date: str) -> str:
    """The whole report.

    Args:
        summary: the content.
        axis: name of the parameter that the target changes, with its unit.
        date: when the report was made, as text.
    """
    title = _text(summary.title)
    sections = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}: how it scales</title>",
        f"<style>{STYLE}{CHART_STYLE}{DIAGNOSIS_STYLE}</style></head><body>",
        f"<h1>{title}: how it scales</h1>",
        f'<p class="dim">{_text(subtitle(summary))}. Made by insitu {__version__}, '
        f"{_text(date)}.</p>",
        diagnosis_section(summary.diagnosis),
        _headlines_section(summary),
    ]
    if summary.series:
        sections += [
            _shares_section(summary, axis),
            _growth_section(summary),
            _partitions_section(summary),
            _expectations_section(summary),
        ]
    sections.append(_proposals_section(summary))
    if summary.series:
        sections += [_trust_section(summary), _charts_section(summary, axis)]
    sections += [_findings_section(summary), _runs_section(summary)]
    if summary.series:
        sections.append(_models_section(summary))
    return "".join((*sections, "</body></html>\n"))


def _headlines_section(summary: Summary) -> str:
    lines = "".join(f"<li>{_text(line)}</li>" for line in headlines(summary))
    if not lines:
        return ""
    return f'<section class="heads"><ul>{lines}</ul></section>'


def _shares_section(summary: Summary, axis: str) -> str:
    shares = listed_shares(summary)
    if not shares:
        return ""

    target = coordinate_text(summary.parameters, summary.target)
    picture, end = "", ""
    if summary.bands is not None:
        bands = summary.bands
        picture = shares_chart(bands.names, bands.at, bands.shares, axis)
        if bands.at[-1] < summary.target[bands.along]:
            end = (
                f" Beyond {axis} = {number(float(bands.at[-1]))} it is unclear what takes the time."
            )

    rows = []
    for share in shares[:MAX_CHARTS]:
        then = predicted_share(share, summary.unclear_shares)
        rows.append((_path(str(share.callpath)), percent(share.now), *then))
    table = _folding_table(("call path", "now", "then", "at 95 %"), rows, numbers=1)

    return (
        f"<h2>What will dominate at {_text(target)}</h2>"
        f'<p class="dim">Shares of {_text(summary.cost)} over all ranks. The bounds move one call '
        f"path within its interval while the others stay.{_text(end)}</p>"
        f'<div class="scroll">{picture}</div>{table}'
    )


def _growth_section(summary: Summary) -> str:
    sections = [f"<h2>What grows fastest</h2>{_growth_table(summary, summary.growing)}"]
    if has_crowded_cost(summary):
        sections.append(f"<p>{_text(CROWDED_GROWTH)}</p>")
    elif not summary.growing:
        sections.append(
            "<p>No call path that matters for the cost is certain to grow: no lower bound at the "
            "target is above the measured value.</p>"
        )
    if summary.others:
        table = _growth_table(summary, summary.others)
        sections.append(f"<h2>Counts, bytes, memory</h2>{table}")
    return "".join(sections)


def _growth_table(summary: Summary, series: Sequence[SeriesGrowth]) -> str:
    if not series:
        return ""

    now = coordinate_text(summary.parameters, summary.largest)
    then = coordinate_text(summary.parameters, summary.target)
    rows = []
    for growth in series:
        key = growth.series.key
        row = (
            _path(str(key.callpath)),
            _text(key.metric),
            _text(growth.series.class_text),
            f"<code>{_text(growth.series.text)}</code>",
            _text(quantity(growth.now, growth.series.metric.unit)),
            _prediction(growth, summary),
            _text(format_bounds(growth.then, growth.series.metric.unit)),
            growth_factor(growth, summary),
            _trust_tag(growth),
        )
        rows.append(row)

    head = ("call path", "metric", "class", "model", f"at {now}", f"at {then}", "95 %", "", "trust")
    return _folding_table(head, rows, numbers=4, until=8)


def _prediction(growth: SeriesGrowth, summary: Summary) -> str:
    """The value at the target, or why there is none."""
    reason = unclear_growth(growth, summary)
    return f'<span class="reason">{_text(reason)}</span>' if reason else _text(target_value(growth))


def _partitions_section(summary: Summary) -> str:
    title = "<h2>What differs between ranks</h2>"
    if not summary.partitions:
        means = f"{MEANS_ONLY[0].upper()}{MEANS_ONLY[1:]}."
        return f"{title}<p>{means if summary.are_means else 'All ranks behave alike.'}</p>"
    sections = [_partition(partition, summary) for partition in summary.partitions]
    hidden = sections[OPEN_PARTITIONS:]
    return title + "".join(sections[:OPEN_PARTITIONS]) + _fold(hidden, "call paths")


def _partition(partition: RankPartition, summary: Summary) -> str:
    """The classes of a call path: a strip of all ranks and a table."""
    heading = (
        f"<h3>{_path(str(partition.callpath))} {_text(partition.metric.name)} "
        f"at {_text(partition.run)}</h3>"
        + rank_strip(partition.labels, [line.name for line in partition.classes])
    )
    has_models = any(line.growth is not None for line in partition.classes)
    rows: list[tuple[str, ...]] = []
    for index, line in enumerate(partition.classes):
        key = (
            f'<svg class="key" viewBox="0 0 12 12"><rect class="c{index % 7}" '
            'width="12" height="12" style="fill:var(--k)"/></svg>'
        )
        name = f'<span class="nowrap">{key}{_text(line.name)}</span>'
        ranks = (str(line.ranks), format_rank_count(line.ranks_then))
        growth = line.growth
        if not has_models:
            rows.append((name, ranks[0]))
            continue
        if growth is None:
            rows.append((name, *ranks, "–", "–", "–", "–"))
            continue
        model = f"<code>{_text(growth.series.text)}</code>"
        values = (
            _text(quantity(growth.now, growth.series.metric.unit)),
            _prediction(growth, summary),
        )
        rows.append((name, *ranks, *values, model, _trust_tag(growth)))

    if not has_models:
        return f"{heading}<p>{NO_CLASS_MODELS}</p>{_table(('class', 'ranks'), rows, numbers=1)}"
    head = ("class", "ranks", "ranks then", "each now", "each then", "model", "trust")
    return f"{heading}{_table(head, rows, numbers=1, until=5)}"


def _expectations_section(summary: Summary) -> str:
    title = "<h2>Expectations</h2>"
    if not summary.expectations:
        return (
            f"{title}<p>There are none. A file <code>expectations.toml</code> in the campaign, or "
            "<code>--expect FILE</code>, states how call paths should grow.</p>"
        )

    rows = []
    for line in summary.expectations:
        style = " class=bad" if line.mark == VIOLATED else ""
        row = (
            f"<b{style}>{_text(line.mark)}</b>",
            _path(line.subject),
            _text(line.series),
            _text(line.expected),
            _text(f"{line.word}: {line.text}"),
            _text(line.sure),
        )
        rows.append(row)

    head = ("", "call path", "metric", "expected", "verdict", "sure")
    return title + _table(head, rows, numbers=5)


def _proposals_section(summary: Summary) -> str:
    proposals = summary.proposals
    title = "<h2>What to measure next</h2>"
    if proposals is None:
        return f"{title}<p>Run times are unknown, so that runs cannot be compared by cost.</p>"

    lead = f"<p>{_with_code(proposals_lead(summary, proposals))}</p>"
    rows = [tuple(map(_text, row)) for row in proposal_rows(summary, proposals)]
    if not rows:
        return title + lead
    head = ("run", "takes about", "on all ranks", "uncertainty then", "why")
    return f"{title}{lead}{_table(head, rows, numbers=1, until=4)}"


def _trust_section(summary: Summary) -> str:
    lines = "".join(f"<li>{_text(line)}</li>" for line in trust_reasons(summary))
    rows = [tuple(map(_text, row)) for row in trust_rows(summary)]
    then = coordinate_text(summary.parameters, summary.target)
    table = _folding_table((f"models at {then}", *TRUST_LEVELS), rows, numbers=1)
    return f"<h2>How far to trust this</h2><ul>{lines}</ul>{table}"


def _charts_section(summary: Summary, axis: str) -> str:
    by_path: dict[CallPath, list[SeriesModel]] = {}
    for growth in summary.series:
        if growth.series.key.metric == summary.cost:
            by_path.setdefault(growth.series.key.callpath, []).append(growth.series)

    # Half of the plots go to the call paths that dominate at the target.
    dominating = [
        share.callpath for share in summary.shares[: MAX_CHARTS // 2] if not share.is_guess
    ]
    chosen = list(dict.fromkeys([*dominating, *by_path]))[:MAX_CHARTS]

    cards = []
    for path in chosen:
        if path in by_path:
            until = summary.largest if has_crowded_cost(summary) else summary.target
            plot = series_chart(by_path[path], until, axis)
            held = describe_chart(by_path[path], until)
            heading = f"<h3>{_path(str(path))}{f' {_text(held)}' if held else ''}</h3>"
            cards.append(f'<div class="chart">{heading}{plot}{legend(by_path[path])}</div>')
    return (
        f"<h2>Measured points and models of {_text(summary.cost)}</h2>"
        f'<p class="dim">Shaded: the {percent(CONFIDENCE)} interval of a measurement. '
        f'Dashed: beyond the measured scales.</p><div class="charts">'
        f"{''.join(cards[:OPEN_CHARTS])}</div>"
    ) + _fold(cards[OPEN_CHARTS:], "call paths", style="charts")


def _findings_section(summary: Summary) -> str:
    if not summary.findings:
        return ""

    texts_by_code: dict[str, list[str]] = {}
    for finding in summary.findings:
        texts_by_code.setdefault(finding.code, []).append(finding.text)

    sections = []
    for code, texts in texts_by_code.items():
        lines = "".join(f"<li>{_text(text)}</li>" for text in texts)
        tag = f'<span class="tag">{_text(code)}</span>'
        if len(texts) <= UNFOLDED_FINDINGS:
            sections.append(f"<p>{tag}</p><ul>{lines}</ul>")
        else:
            sections.append(
                f"<details><summary>{tag} {len(texts)} findings</summary><ul>{lines}</ul></details>"
            )

    shown = "".join(sections[:OPEN_CODES])
    return f"<h2>Findings</h2>{shown}{_fold(sections[OPEN_CODES:], 'kinds of findings')}"


def _runs_section(summary: Summary) -> str:
    rows = []
    for run in summary.runs:
        seconds = run.ended_at - run.started_at  # 0 of imported runs
        took = f"{seconds:.1f} s" if seconds > 0 else "–"
        rows.append((_text(str(run.key)), _text(describe_state(run)), took))
    table = _table(("run", "state", "took"), rows, numbers=2)
    is_open = " open" * (len(rows) <= UNFOLDED_RUNS)
    count = f"{len(rows)} run{'s' * (len(rows) != 1)}"
    return f"<h2>Runs</h2><details{is_open}><summary>{count}</summary>{table}</details>"


def _models_section(summary: Summary) -> str:
    rows = []
    for growth in summary.series[:MAX_MODELS]:
        key, model = growth.series.key, growth.series.model
        row = (
            percent(growth.share),
            _path(str(key.callpath)),
            _text(key.metric),
            _text(growth.series.class_text),
            f"<code>{_text(growth.series.text)}</code>",
            "–" if math.isnan(model.smape) else percent(model.smape / 100),
            _prediction(growth, summary),
            _text(format_bounds(growth.then, growth.series.metric.unit)),
        )
        rows.append(row)

    then = coordinate_text(summary.parameters, summary.target)
    head = ("share", "call path", "metric", "class", "model", "error", f"at {then}", "95 %")
    return (
        f"<h2>All models</h2><details><summary>{len(rows)} of {len(summary.series)} models, "
        f"most expensive first</summary>{_table(head, rows, numbers=5)}</details>"
    )


def _table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: int = NO_NUMBERS,
    until: int = NO_NUMBERS,
) -> str:
    """A table of cells that are already HTML.

    Args:
        head: titles of the columns, as text.
        rows: cells.
        numbers: first column that is aligned right.
        until: first column after it that is aligned left again.
    """

    def make_row(cells: Sequence[str], tag: str) -> str:
        texts = []
        for index, cell in enumerate(cells):
            style = " class=n" if numbers <= index < until else ""
            texts.append(f"<{tag}{style}>{cell}</{tag}>")
        return "".join(texts)

    body = "".join(f"<tr>{make_row(row, 'td')}</tr>" for row in rows)
    titles = make_row([_text(cell) for cell in head], "th")
    return (
        f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _folding_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: int = NO_NUMBERS,
    until: int = NO_NUMBERS,
) -> str:
    """A table whose rows after the first OPEN_ROWS are folded; see `_table`."""
    table = _table(head, rows[:OPEN_ROWS], numbers=numbers, until=until)
    if len(rows) <= OPEN_ROWS + 1:
        return _table(head, rows, numbers=numbers, until=until)
    rest = _table(head, rows[OPEN_ROWS:], numbers=numbers, until=until)
    count = len(rows) - OPEN_ROWS
    return f"{table}<details><summary>{count} more</summary>{rest}</details>"


def _fold(sections: Sequence[str], what: str, *, style: str = "") -> str:
    """Sections that a reader opens; nothing without sections."""
    if not sections:
        return ""
    body = "".join(sections)
    return (
        f"<details><summary>{len(sections)} more {what}</summary>"
        f'<div class="{style}">{body}</div></details>'
    )


def _trust_tag(growth: SeriesGrowth) -> str:
    return f'<span class="tag">{growth.trust}</span>'


def _path(callpath: str) -> str:
    """The end of a call path; the whole path is the tooltip."""
    whole = escape(printable(callpath), quote=True)
    shown = escape(last_frames(callpath, PATH_WIDTH)).replace(ESCAPED_ARROW, WITH_BREAK)
    return f'<code title="{whole}">{shown}</code>'


def _with_code(text: str) -> str:
    """Text in which words between backticks are code."""
    parts = map(_text, text.split("`"))
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _text(text: str) -> str:
    return escape(printable(text), quote=True)
