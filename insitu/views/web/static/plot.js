// Curves with intervals and points, drawn by uPlot. Drag to enlarge, double-click to see everything.
import {
  classShape, COLOURS, formatNumber, formatQuantity, isWide, linearTicks, logTicks, printable,
} from "./text.js";

const PAPER_WIDTH = 660; // pixels that fit on a printed page
const MIN_WIDTH = 200;
const FONT = "11px system-ui, 'DejaVu Sans', sans-serif";
const LINE_STYLES = { line: [2, []], beyond: [2, [6, 5]], rival: [1, [2, 3]] }; // width, dashes

const plots = new Map(); // by element: { plot, spec, content, zoom }

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const seriesColour = (series) => colour(`c${series.shade % COLOURS}`);

export function redrawAll() {
  for (const [host, drawing] of plots) {
    drawing.content = "";
    if (host.isConnected && host.clientWidth) drawCurves(host, drawing.spec);
  }
}

export function clearPlot(host) {
  const drawing = plots.get(host);
  if (drawing) drawing.plot.destroy();
  plots.delete(host);
  host.replaceChildren();
}

// Which axes are logarithmic: as the user chose, otherwise as the points suggest.
export function chooseAxes(choice, points) {
  const isLog = (word, values) => (word === "" ? isWide(values) : word === "log");
  return {
    isLogX: isLog(choice.x, points.map(([x]) => x)),
    isLogY: isLog(choice.y, points.map(([, y]) => y)),
  };
}

// Draw curves into an element.
//
// spec: {
//   key         what is drawn; the zoom is kept as long as it stays the same
//   axis        name of the parameter
//   valueLabel  name of the values
//   unit        of the values
//   isLogX, isLogY
//   series      [{ name, shade, at, values, low, high, last, points, gaps, rivals, live }]:
//               at, values, low, high: the curve and its bounds; last: largest measured x;
//               points: [x, y]; gaps: [low, high] of change points; rivals: values of other
//               candidates; live: [x, y, [low, expected, high]] of the run in progress
//   onHover     called with (x, index of each curve at x) under the mouse, or (null, [])
//   label       for screen readers
//   height, minExtent, format
// }
export function drawCurves(host, spec) {
  const before = plots.get(host);
  const content = JSON.stringify([spec, host.clientWidth]);
  if (before && before.content === content) return;

  const zoom = before && before.spec.key === spec.key ? before.zoom : null;
  if (before) before.plot.destroy();

  const table = makeTable(spec);
  const columns = [table.x, ...table.columns.map((column) => column.values)];
  const plot = new uPlot(makeOptions(host, spec, table), columns, host);
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", spec.label);

  const drawing = { plot, spec, content, zoom };
  plots.set(host, drawing);
  if (zoom) plot.setScale("x", zoom);
  plot.over.addEventListener("dblclick", () => { drawing.zoom = null; });
}

const resizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const drawing = plots.get(target);
    const hasChanged = drawing && target.clientWidth && target.clientWidth !== drawing.plot.width;
    if (hasChanged) drawCurves(target, drawing.spec);
  }
});

// Redraw an element whenever its width changes.
export function watchWidth(host) {
  resizes.observe(host);
}

// uPlot needs one table: a column for each curve over the union of all x. Missing cells are undefined.
function makeTable(spec) {
  const x = listPositions(spec);
  const indexOf = new Map(x.map((value, i) => [value, i]));
  const columns = [];

  const addColumn = (kind, shade, pairs) => {
    const values = new Array(x.length).fill(undefined);
    for (const [at, value] of pairs) {
      const isDrawable = value !== null && !(spec.isLogY && !(value > 0));
      if (indexOf.has(at)) values[indexOf.get(at)] = isDrawable ? value : null;
    }
    columns.push({ kind, shade, values });
  };

  for (const series of spec.series) {
    const pairs = (values) => series.at.map((at, i) => [at, values[i]]);

    if (series.low && series.low.some((value) => value !== null)) {
      const floor = boundFloor(spec, series);
      const low = series.low.map((value) => (value === null ? null : Math.max(value, floor)));
      addColumn("high", series.shade, pairs(series.high));
      addColumn("low", series.shade, pairs(low));
    }
    for (const rival of series.rivals || []) addColumn("rival", series.shade, pairs(rival));

    const curve = pairs(series.values);
    const breaks = gapMiddles(series).map((at) => [at, null]); // a line ends where its segment ends
    addColumn("line", series.shade, [...curve.filter(([at]) => at <= series.last), ...breaks]);
    addColumn("beyond", series.shade, curve.filter(([at]) => at >= series.last));
  }
  return { x, columns };
}

function listPositions(spec) {
  const positions = new Set();
  for (const series of spec.series) {
    for (const at of series.at) positions.add(at);
    for (const [at] of series.points) positions.add(at);
    for (const at of gapMiddles(series)) positions.add(at);
    if (series.live) positions.add(series.live[0]);
  }
  return [...positions].filter((at) => !spec.isLogX || at > 0).sort((a, b) => a - b);
}

// A logarithmic axis cannot show a lower bound of zero: it ends far below the curve instead.
function boundFloor(spec, series) {
  if (!spec.isLogY) return -Infinity;
  return Math.min(...series.values.filter((value) => value > 0)) * 1e-3;
}

const gapMiddles = (series) => (series.gaps || []).map(([low, high]) => (low + high) / 2);

function makeOptions(host, spec, table) {
  const isPaper = "paper" in document.documentElement.dataset;
  const bands = [];
  const series = table.columns.map((column, i) => {
    const stroke = seriesColour(column);
    const isBound = column.kind === "high" || column.kind === "low";
    if (column.kind === "high") bands.push({ series: [i + 1, i + 2], fill: `${stroke}2b` });

    const [width, dash] = LINE_STYLES[column.kind] || [0, []];
    return { stroke: isBound ? "transparent" : stroke, width, dash, points: { show: false }, spanGaps: false };
  });

  return {
    width: Math.min(Math.max(host.clientWidth, MIN_WIDTH), isPaper ? PAPER_WIDTH : Infinity),
    height: spec.height || 290,
    padding: [10, 14, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: true } },
    scales: {
      x: {
        time: false,
        distr: spec.isLogX ? 3 : 1,
        range: (_, low, high) => [low, high > low ? high : low + 1],
      },
      y: { distr: spec.isLogY ? 3 : 1, range: (plot) => valueRange(plot, spec) },
    },
    axes: makeAxes(spec),
    bands,
    series: [{}, ...series],
    hooks: {
      drawAxes: [(plot) => drawGaps(plot, spec)],
      draw: [(plot) => drawPoints(plot, spec)],
      setCursor: [(plot) => reportCursor(plot, spec, table)],
      setSelect: [(plot) => storeZoom(host, plot)],
    },
  };
}

function makeAxes(spec) {
  const line = colour("line");
  const common = {
    stroke: colour("dim"),
    font: FONT,
    labelFont: FONT,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, size: 5 },
    filter: (_, splits) => splits,
  };
  const formatValue = spec.format || ((value) => formatQuantity(value, spec.unit));

  const xAxis = {
    ...common,
    grid: { show: false },
    label: printable(spec.axis),
    labelSize: 18,
    size: 30,
    splits: (_, __, low, high) => (spec.isLogX ? logTicks(low, high) : linearTicks(low, high, 7)),
    values: (_, splits) => splits.map((value) => formatNumber(value)),
  };
  const yAxis = {
    ...common,
    label: printable(spec.valueLabel),
    labelSize: 16,
    size: 72,
    splits: (_, __, low, high) => (
      spec.isLogY ? logTicks(low, high, 6, spec.unit === "B") : linearTicks(low, high, 6)
    ),
    values: (_, splits) => splits.map((value) => formatValue(value)),
  };
  return [xAxis, yAxis];
}

function storeZoom(host, plot) {
  const drawing = plots.get(host);
  const { left, width } = plot.select;
  if (!drawing || !(width > 0)) return;
  drawing.zoom = { min: plot.posToVal(left, "x"), max: plot.posToVal(left + width, "x") };
}

// Curves and points determine the range; intervals do not: they may be far wider beyond the points.
function valueRange(plot, spec) {
  const values = listVisibleValues(plot, spec);
  if (!values.length) return spec.isLogY ? [1, 10] : [0, 1];

  let low = Math.min(...values);
  let high = Math.max(...values);
  if (spec.minExtent) {
    low = Math.min(low, -spec.minExtent);
    high = Math.max(high, spec.minExtent);
  }
  if (spec.isLogY) return low === high ? [low / 2, high * 2] : [low / 1.25, high * 1.25];

  if (low > 0 && low <= high / 2) low = 0;
  if (low === high) return low ? [Math.min(0, 2 * low), Math.max(0, 2 * high)] : [0, 1];
  const margin = 0.06 * (high - low);
  return [low < 0 ? low - margin : low, high + margin];
}

function listVisibleValues(plot, spec) {
  const { min, max } = plot.scales.x;
  const isInside = (x) => x >= (min ?? -Infinity) && x <= (max ?? Infinity);

  const pairs = [];
  for (const series of spec.series) {
    series.at.forEach((x, i) => pairs.push([x, series.values[i]]));
    pairs.push(...series.points);
    if (series.live) pairs.push(series.live);
  }

  const values = [];
  for (const [x, y] of pairs) {
    const isDrawable = y !== null && Number.isFinite(y) && (!spec.isLogY || y > 0);
    if (isDrawable && isInside(x)) values.push(y);
  }
  return values;
}

// Shade the gap between two segments, in which the behaviour changes.
function drawGaps(plot, spec) {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const series of spec.series) {
    ctx.fillStyle = `${seriesColour(series)}26`;
    for (const [low, high] of series.gaps || []) {
      const from = plot.valToPos(low, "x", true);
      const to = plot.valToPos(high, "x", true);
      ctx.fillRect(from, bbox.top, Math.max(to - from, 2), bbox.height);
    }
  }
  ctx.restore();
}

function drawPoints(plot, spec) {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio || 1;
  const margin = 6 * scale; // a sign at the edge is drawn completely
  const paper = colour("paper");

  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - margin, bbox.top - margin, bbox.width + 2 * margin, bbox.height + 2 * margin);
  ctx.clip();

  for (const series of spec.series) {
    const style = { fill: seriesColour(series), edge: paper, size: 4.2 * scale };
    for (const [x, y] of series.points) drawSign(plot, spec, series, x, y, style);
    if (series.live) drawLivePoint(plot, spec, series, scale);
  }
  ctx.restore();
}

// Draw the sign of a class at (x, y).
function drawSign(plot, spec, series, x, y, style) {
  const { min, max } = plot.scales.x;
  const isOutside = x < min || x > max || y === null;
  const isUndefined = (spec.isLogX && !(x > 0)) || (spec.isLogY && !(y > 0));
  if (isOutside || isUndefined) return;

  const { ctx } = plot;
  const left = plot.valToPos(x, "x", true);
  const top = plot.valToPos(y, "y", true);
  const corners = classShape(series.shade, left, top, style.size);

  ctx.setLineDash([]); // the curve drawn before may have set one
  ctx.beginPath();
  if (corners.length === 1) {
    ctx.arc(...corners[0], 0, 2 * Math.PI);
  } else {
    ctx.moveTo(...corners[0]);
    for (const corner of corners.slice(1)) ctx.lineTo(...corner);
    ctx.closePath();
  }
  ctx.fillStyle = style.fill;
  ctx.strokeStyle = style.edge;
  ctx.lineWidth = style.size / 3;
  ctx.fill();
  ctx.stroke();
}

// The run in progress: its value so far, and the bounds of its forecast.
function drawLivePoint(plot, spec, series, scale) {
  const [x, y, expected] = series.live;
  const { ctx } = plot;
  const ink = colour("ink");

  if (expected && x >= plot.scales.x.min && x <= plot.scales.x.max) {
    const floor = spec.isLogY ? plot.scales.y.min : -Infinity;
    const left = plot.valToPos(x, "x", true);
    const top = plot.valToPos(expected[2], "y", true);
    const bottom = plot.valToPos(Math.max(expected[0], floor), "y", true);

    ctx.strokeStyle = ink;
    ctx.lineWidth = 1.5 * scale;
    ctx.setLineDash([]);
    ctx.beginPath();
    for (const end of [top, bottom]) {
      ctx.moveTo(left - 5 * scale, end);
      ctx.lineTo(left + 5 * scale, end);
    }
    ctx.moveTo(left, top);
    ctx.lineTo(left, bottom);
    ctx.stroke();
  }
  drawSign(plot, spec, series, x, y, { fill: colour("paper"), edge: ink, size: 5 * scale });
}

// Report the position under the mouse.
function reportCursor(plot, spec, table) {
  if (!spec.onHover) return;

  const index = plot.cursor.idx;
  if (index === null || index === undefined || plot.cursor.left < 0) {
    spec.onHover(null, []);
    return;
  }
  const x = table.x[index];
  spec.onHover(x, spec.series.map((series) => nearestIndex(series.at, x)));
}

function nearestIndex(positions, x) {
  let nearest = 0;
  positions.forEach((position, i) => {
    if (Math.abs(position - x) < Math.abs(positions[nearest] - x)) nearest = i;
  });
  return nearest;
}
