// Curves with intervals and points, drawn by uPlot; drag to enlarge, double click to see all.
import { COLOURS, isWide, logTicks, quantity, number, printable, shape, ticks } from "./text.js";

const PAPER = 660; // what fits on a printed page
const plots = new Map(); // by host: the plot, what it shows, what of it is enlarged

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export function redrawAll() {
  for (const [host, one] of plots) {
    one.told = "";
    if (host.isConnected && host.clientWidth) curves(host, one.spec);
  }
}

export function clear(host) {
  const before = plots.get(host);
  if (before) before.plot.destroy();
  plots.delete(host);
  host.replaceChildren();
}

// Which axes are logarithmic: as the user said, else as the points ask for.
export function axesOf(said, points) {
  const choose = (word, values) => (word === "" ? isWide(values) : word === "log");
  return {
    isLogX: choose(said.x, points.map(([x]) => x)),
    isLogY: choose(said.y, points.map(([, y]) => y)),
  };
}

// Draw into a host.
// spec: { key, axis, unit, isLogX, isLogY, series: [{ name, shade, at, values, low, high, last,
//   points, gaps, rivals, live }], told(x, [value]), label, height, least, told values format }
export function curves(host, spec) {
  const before = plots.get(host);
  const told = JSON.stringify([spec, host.clientWidth]);
  if (before && before.told === told) return;
  const zoom = before && before.spec.key === spec.key ? before.zoom : null;
  if (before) before.plot.destroy();
  const table = tableOf(spec);
  const options = optionsOf(host, spec, table);
  const plot = new uPlot(options, [table.x, ...table.columns.map((one) => one.values)], host);
  host.setAttribute("role", "img");
  host.setAttribute("aria-label", spec.label);
  const one = { plot, spec, told, zoom };
  plots.set(host, one);
  if (zoom) plot.setScale("x", zoom);
  plot.over.addEventListener("dblclick", () => { one.zoom = null; });
}

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const one = plots.get(target);
    if (one && target.clientWidth && target.clientWidth !== one.plot.width) curves(target, one.spec);
  }
});

export function watch(host) {
  sizes.observe(host);
}

// One table of all curves over the union of their places; what a curve does not say stays open.
function tableOf(spec) {
  const places = new Set();
  for (const one of spec.series) {
    one.at.forEach((x) => places.add(x));
    one.points.forEach(([x]) => places.add(x));
    if (one.live) places.add(one.live[0]);
    middles(one).forEach((at) => places.add(at));
  }
  const x = [...places].filter((at) => !spec.isLogX || at > 0).sort((a, b) => a - b);
  const index = new Map(x.map((at, i) => [at, i]));
  const columns = [];
  const add = (kind, series, shade, pairs) => {
    const values = new Array(x.length).fill(undefined);
    for (const [at, value] of pairs) {
      if (index.has(at)) values[index.get(at)] = value === null || (spec.isLogY && !(value > 0)) ? null : value;
    }
    columns.push({ kind, series, shade, values });
  };
  spec.series.forEach((one, series) => {
    const pairs = (values) => one.at.map((at, i) => [at, values[i]]);
    if (one.low && one.low.some((value) => value !== null)) {
      const floor = spec.isLogY ? Math.min(...one.values.filter((value) => value > 0)) * 1e-3 : -Infinity;
      add("high", series, one.shade, pairs(one.high));
      add("low", series, one.shade, pairs(one.low.map((value) => (value === null ? null : Math.max(value, floor)))));
    }
    for (const rival of one.rivals || []) add("rival", series, one.shade, pairs(rival));
    const broken = middles(one).map((at) => [at, null]); // where a segment ends, so does its line
    add("line", series, one.shade, [...pairs(one.values).filter(([at]) => at <= one.last), ...broken]);
    add("far", series, one.shade, pairs(one.values).filter(([at]) => at >= one.last));
  });
  return { x, columns };
}

const middles = (one) => (one.gaps || []).map(([low, high]) => (low + high) / 2);

function optionsOf(host, spec, table) {
  const [ink, dim, line] = [colour("ink"), colour("dim"), colour("line")];
  const font = "11px system-ui, 'DejaVu Sans', sans-serif";
  const bands = [];
  const series = table.columns.map((one, i) => {
    const stroke = colour(`c${one.shade % COLOURS}`);
    if (one.kind === "high") bands.push({ series: [i + 1, i + 2], fill: `${stroke}2b` });
    const isEdge = one.kind === "high" || one.kind === "low";
    const styles = { line: [2, []], far: [2, [6, 5]], rival: [1, [2, 3]] };
    const [width, dash] = styles[one.kind] || [0, []];
    return { stroke: isEdge ? "transparent" : stroke, width, dash, points: { show: false }, spanGaps: false };
  });
  const common = { stroke: dim, font, labelFont: font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, size: 5 }, filter: (_, splits) => splits };
  return {
    width: Math.min(Math.max(host.clientWidth, 200), "paper" in document.documentElement.dataset ? PAPER : Infinity),
    height: spec.height || 290,
    padding: [10, 14, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: true } },
    scales: {
      x: { time: false, distr: spec.isLogX ? 3 : 1, range: (_, low, high) => [low, high > low ? high : low + 1] },
      y: { distr: spec.isLogY ? 3 : 1, range: (u) => heightOf(u, spec) },
    },
    axes: [
      { ...common, grid: { show: false }, label: printable(spec.axis), labelSize: 18, size: 30,
        splits: (_, __, low, high) => (spec.isLogX ? logTicks(low, high) : ticks(low, high, 7)),
        values: (_, splits) => splits.map((value) => number(value)) },
      { ...common, size: 72,
        splits: (_, __, low, high) => (spec.isLogY ? logTicks(low, high, 6, spec.unit === "B") : ticks(low, high, 6)),
        values: (_, splits) => splits.map(spec.format || ((value) => quantity(value, spec.unit))) },
    ],
    bands,
    series: [{}, ...series],
    hooks: {
      drawAxes: [(u) => drawGaps(u, spec)],
      draw: [(u) => drawMarks(u, spec, ink)],
      setCursor: [(u) => tellCursor(u, spec, table)],
      setSelect: [(u) => keepZoom(host, u)],
    },
  };
}

function keepZoom(host, u) {
  const one = plots.get(host);
  if (!one || !(u.select.width > 0)) return;
  one.zoom = { min: u.posToVal(u.select.left, "x"), max: u.posToVal(u.select.left + u.select.width, "x") };
}

// Curves and points say how high the plot is; an interval may be far wider beyond the points.
function heightOf(u, spec) {
  const { min, max } = u.scales.x;
  const inside = (x) => x >= (min ?? -Infinity) && x <= (max ?? Infinity);
  const used = [];
  for (const one of spec.series) {
    one.at.forEach((x, i) => inside(x) && used.push(one.values[i]));
    one.points.forEach(([x, y]) => inside(x) && used.push(y));
    if (one.live && inside(one.live[0])) used.push(one.live[1]);
  }
  const known = used.filter((value) => value !== null && Number.isFinite(value) && (!spec.isLogY || value > 0));
  if (!known.length) return spec.isLogY ? [1, 10] : [0, 1];
  let [low, high] = [Math.min(...known), Math.max(...known)];
  if (spec.least) [low, high] = [Math.min(low, -spec.least), Math.max(high, spec.least)];
  if (spec.isLogY) return low === high ? [low / 2, high * 2] : [low / 1.25, high * 1.25];
  if (low > 0 && low <= high / 2) low = 0;
  if (low === high) return low ? [Math.min(0, 2 * low), Math.max(0, 2 * high)] : [0, 1];
  return [low < 0 ? low - 0.06 * (high - low) : low, high + 0.06 * (high - low)];
}

// Between two segments behaviour changes: that gap is shaded.
function drawGaps(u, spec) {
  const { ctx, bbox } = u;
  ctx.save();
  for (const one of spec.series) {
    ctx.fillStyle = `${colour(`c${one.shade % COLOURS}`)}26`;
    for (const [low, high] of one.gaps || []) {
      const [from, to] = [u.valToPos(low, "x", true), u.valToPos(high, "x", true)];
      ctx.fillRect(from, bbox.top, Math.max(to - from, 2), bbox.height);
    }
  }
  ctx.restore();
}

function drawMarks(u, spec, ink) {
  const { ctx, bbox } = u;
  const scale = devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 6 * scale, bbox.top - 6 * scale, bbox.width + 12 * scale, bbox.height + 12 * scale);
  ctx.clip();
  const paper = colour("paper");
  for (const one of spec.series) {
    const fill = colour(`c${one.shade % COLOURS}`);
    for (const [x, y] of one.points) mark(u, one.shade, x, y, spec, fill, paper, 4.2 * scale);
    if (one.live) drawLive(u, one, spec, ink, paper, scale);
  }
  ctx.restore();
}

function mark(u, index, x, y, spec, fill, edge, size) {
  const { min, max } = u.scales.x;
  if (x < min || x > max || (spec.isLogX && !(x > 0)) || y === null || (spec.isLogY && !(y > 0))) return;
  const { ctx } = u;
  ctx.setLineDash([]); // of the last curve
  const corners = shape(index, u.valToPos(x, "x", true), u.valToPos(y, "y", true), size);
  ctx.beginPath();
  if (corners.length === 1) ctx.arc(...corners[0], 0, 2 * Math.PI);
  else {
    corners.forEach(([a, b], i) => (i ? ctx.lineTo(a, b) : ctx.moveTo(a, b)));
    ctx.closePath();
  }
  [ctx.fillStyle, ctx.strokeStyle, ctx.lineWidth] = [fill, edge, size / 3];
  ctx.fill();
  ctx.stroke();
}

// The run in progress: what it took so far, within what is due by now.
function drawLive(u, one, spec, ink, paper, scale) {
  const [x, y, due] = one.live;
  const { ctx } = u;
  if (due && x >= u.scales.x.min && x <= u.scales.x.max) {
    const floor = spec.isLogY ? u.scales.y.min : -Infinity;
    const [at, top, bottom] = [u.valToPos(x, "x", true), u.valToPos(due[2], "y", true), u.valToPos(Math.max(due[0], floor), "y", true)];
    [ctx.strokeStyle, ctx.lineWidth] = [ink, 1.5 * scale];
    ctx.setLineDash([]);
    ctx.beginPath();
    for (const end of [top, bottom]) {
      ctx.moveTo(at - 5 * scale, end);
      ctx.lineTo(at + 5 * scale, end);
    }
    ctx.moveTo(at, top);
    ctx.lineTo(at, bottom);
    ctx.stroke();
  }
  mark(u, one.shade, x, y, spec, paper, ink, 5 * scale);
}

// What the curves say under the mouse.
function tellCursor(u, spec, table) {
  if (!spec.told) return;
  const i = u.cursor.idx;
  if (i === null || i === undefined || u.cursor.left < 0) {
    spec.told(null, []);
    return;
  }
  spec.told(table.x[i], spec.series.map((one) => {
    let best = 0;
    one.at.forEach((x, place) => { if (Math.abs(x - table.x[i]) < Math.abs(one.at[best] - table.x[i])) best = place; });
    return one.values[best];
  }));
}
