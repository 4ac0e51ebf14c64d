// The board of a campaign, redrawn as it grows. Names come from programs: they are set as text only.
"use strict";

const ARROW = "->";
const COLOURS = 7;
const SCALES = {
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  B: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  1: [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]],
};
const byId = (id) => document.getElementById(id);

let board = { parameters: [], runs: [], series: [], findings: [], omitted: 0 };
let metric = "";
let chosen = null; // the path and the class of a row
let shown = []; // the rows of the table
let answer = null; // the curves of the chosen call path
let asked = 0;
let isNew = false; // axes are chosen with the next curves
const folded = new Set();

function element(tag, kind, text) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// What a reader would not see, or would see elsewhere, becomes an escape.
function printable(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

function quantity(value, unit) {
  const digits = (x) => Math.abs(x) >= 100 ? String(Math.round(x)) : String(Number(x.toPrecision(3)));
  const scales = SCALES[unit || 1];
  if (!scales) return `${digits(value)} ${unit}`;
  const size = Math.abs(value);
  const [scale, name] = size ? scales.find(([one]) => size >= 0.9995 * one) || scales.at(-1) : [1, unit === "1" ? "" : unit];
  return `${digits(value / scale)} ${name}`.trim();
}

function percent(part) {
  const value = 100 * part;
  if (value > 0 && value < 0.1) return "<0.1 %";
  return `${value > 0 && value < 9.95 ? value.toFixed(1) : Math.round(value)} %`;
}

// Nodes of the call tree of one metric, a dear subtree before a cheap one.
function treeOf(series) {
  const root = { children: new Map(), cost: 0 };
  for (const row of series) {
    let node = root;
    let path = "";
    for (const frame of row.callpath.split(ARROW)) {
      path = path ? path + ARROW + frame : frame;
      if (!node.children.has(frame)) {
        node.children.set(frame, { frame, path, children: new Map(), rows: [], cost: 0, share: null });
      }
      node = node.children.get(frame);
    }
    node.rows.push(row);
    node.share = row.share;
  }
  const weigh = (node) => {
    node.cost = node.share || 0;
    for (const child of node.children.values()) node.cost += weigh(child);
    return node.cost;
  };
  weigh(root);
  return root;
}

function lines(node, depth, wanted, out) {
  for (const child of [...node.children.values()].sort((a, b) => b.cost - a.cost)) {
    if (wanted && !child.hit) continue;
    const rows = child.rows.length ? child.rows : [null];
    rows.forEach((row, i) => out.push({ node: child, row, depth, isFirst: i === 0 }));
    if (wanted || !folded.has(child.path)) lines(child, depth + 1, wanted, out);
  }
  return out;
}

// A node is wanted where its path, a class or a model below it has the word.
function mark(node, word) {
  node.hit = false;
  for (const child of node.children.values()) if (mark(child, word)) node.hit = true;
  const says = (row) => `${row.callpath} ${row.behaviour} ${row.text}`.toLowerCase().includes(word);
  if (node.rows && node.rows.some(says)) node.hit = true;
  return node.hit;
}

const isChosen = (line) =>
  chosen !== null && line.node.path === chosen.path && (line.row ? line.row.behaviour : "") === chosen.behaviour;

function drawTree() {
  const names = [...new Set(board.series.map((row) => row.metric))];
  if (!names.includes(metric)) metric = names[0] || "";
  choices(byId("metric"), names, metric);
  const root = treeOf(board.series.filter((row) => row.metric === metric));
  const word = byId("filter").value.trim().toLowerCase();
  if (word) mark(root, word);
  shown = lines(root, 0, word !== "", []);
  if (!shown.some(isChosen)) {
    const best = shown.filter((line) => line.row).sort((a, b) => b.row.share - a.row.share)[0];
    choose(best || null);
  }
  byId("rows").replaceChildren(...shown.map(rowOf));
}

function rowOf(line) {
  const { node, row, depth, isFirst } = line;
  const made = element("tr", isChosen(line) ? "chosen" : "");
  made.append(element("td", "n", isFirst && node.share !== null ? percent(node.share) : ""));
  const path = element("td", "path");
  path.style.paddingLeft = `${8 + 14 * depth}px`;
  if (isFirst) {
    const sign = node.children.size ? (folded.has(node.path) ? "▸" : "▾") : "";
    const fold = element("span", "fold", sign);
    fold.addEventListener("click", (event) => {
      event.stopPropagation();
      toggle(node.path);
    });
    path.append(fold, printable(node.frame));
    path.title = printable(node.path);
  }
  const text = row ? printable(row.text || (row.live === null ? "" : `now ${quantity(row.live, row.unit)}`)) : "";
  const model = element("td", row && (!row.text || row.text.startsWith("preview:")) ? "preview" : "", text);
  model.title = text;
  const error = row && row.smape !== null ? percent(row.smape / 100) : "";
  made.append(path, element("td", "", row ? printable(row.behaviour) : ""), model, element("td", "n", error));
  made.addEventListener("click", () => {
    choose(line);
    drawTree();
  });
  return made;
}

function toggle(path) {
  if (!folded.delete(path)) folded.add(path);
  drawTree();
}

function choose(line) {
  const before = chosen && chosen.path;
  chosen = line && { path: line.node.path, behaviour: line.row ? line.row.behaviour : "" };
  byId("chosen").textContent = line ? line.node.path.split(ARROW).map(printable).join(" → ") : "no call path yet";
  if ((chosen && chosen.path) === before) return;
  isNew = true;
  ask();
}

// The curves of the chosen call path; where the board grew, the axes stay as they are.
async function ask() {
  const mine = ++asked;
  if (!chosen) {
    answer = null;
    drawDetail();
    return;
  }
  const query = new URLSearchParams({ callpath: chosen.path, metric, axis: byId("axis").value });
  try {
    const response = await fetch(`series?${query}`);
    if (mine !== asked || !response.ok) return;
    answer = await response.json();
  } catch {
    return; // the state above the page says that nobody answers
  }
  if (isNew) chooseAxes();
  isNew = false;
  drawDetail();
}

function chooseAxes() {
  const wide = (values) => {
    const above = values.filter((value) => value > 0);
    return above.length > 0 && above.length === values.length && Math.max(...values) >= 8 * Math.min(...values);
  };
  const points = answer.classes.flatMap((one) => one.points);
  byId("log-x").checked = wide(points.map(([x]) => x));
  byId("log-y").checked = wide(points.map(([, y]) => y));
}

function drawDetail() {
  const classes = answer ? answer.classes : [];
  const names = board.parameters;
  byId("axis-label").hidden = names.length < 2;
  choices(byId("axis"), names, answer ? answer.axis : "");
  byId("plot").replaceChildren(...(classes.length ? [plot(classes, answer.axis)] : []));
  byId("legend").replaceChildren(...classes.map((one, i) => {
    const item = element("li", one.name === chosen.behaviour ? "chosen" : "");
    item.append(sign(i), `${printable(one.name)}: ${printable(one.text)}`);
    return item;
  }));
  const row = chosen && board.series.find((one) => one.callpath === chosen.path && one.metric === metric);
  const now = row && row.live !== null ? `; now ${quantity(row.live, row.unit)}` : "";
  const others = names.length > 1 ? ", other parameters at their largest values" : "";
  byId("note").textContent = !chosen ? "" : classes.length
    ? `${printable(metric)}, model and 95 % interval, dashed beyond what was measured${others}${now}`
    : `no model of ${printable(metric)} yet${now}`;
  drawRanks(answer && answer.ranks, classes);
}

function sign(i) {
  const key = drawn("svg", { viewBox: "0 0 12 12", class: "key" });
  key.append(drawn("circle", { cx: 6, cy: 6, r: 4.5, class: `mark c${i % COLOURS}` }));
  return key;
}

// Which rank is which class, in the order of ranks.
function drawRanks(ranks, classes) {
  const title = byId("classes-title");
  title.hidden = !ranks;
  if (!ranks) {
    byId("ranks").replaceChildren();
    return;
  }
  const told = ranks.names.map((name, i) => `${printable(name)}: ${ranks.counts[i]}`).join(", ");
  title.textContent = `ranks of ${printable(ranks.run)} by class (${told})`;
  const shade = ranks.names.map((name, i) => {
    const place = classes.findIndex((one) => one.name === name);
    return `cell c${(place < 0 ? i : place) % COLOURS}`;
  });
  const across = Math.min(ranks.labels.length, 64);
  const strip = drawn("svg", { viewBox: `0 0 ${across * 10} ${Math.ceil(ranks.labels.length / across) * 10}` });
  strip.style.maxWidth = `${across * 14}px`;
  ranks.labels.forEach((label, rank) => {
    const cell = drawn("rect", {
      x: (rank % across) * 10, y: Math.floor(rank / across) * 10, width: 9, height: 9,
      class: label < 0 ? "cell none" : shade[label],
    });
    cell.append(drawn("title", {}, `rank ${rank}: ${label < 0 ? "no value" : printable(ranks.names[label])}`));
    strip.append(cell);
  });
  byId("ranks").replaceChildren(strip);
}

function axisOf(values, start, end, isLog) {
  const used = values.filter((value) => value !== null && Number.isFinite(value) && (!isLog || value > 0));
  let low = Math.min(...used);
  let high = Math.max(...used);
  if (!used.length) [low, high] = [1, 2];
  if (!isLog && low > 0 && low <= high / 2) low = 0;
  if (low === high && isLog) [low, high] = [low / 2, high * 2];
  if (low === high) [low, high] = [Math.min(0, 2 * low), Math.max(0, 2 * high) || 1];
  const part = isLog ? (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low)
    : (value) => (value - low) / (high - low);
  const place = (value) => start + Math.min(Math.max(part(value), -0.02), 1.02) * (end - start);
  return { place, ticks: isLog ? logTicks(low, high) : ticks(low, high) };
}

function ticks(low, high) {
  const raw = (high - low) / 5;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = size * [1, 2, 5, 10].find((one) => size * one >= raw * 0.999);
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9) + 1e-300; i++) out.push(i * step);
  return out;
}

function logTicks(low, high) {
  const base = high / low < 5000 ? 2 : 10;
  const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
  const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
  if (last - first < 1) return ticks(low, high);
  const step = Math.ceil((last - first + 1) / 7);
  const out = [];
  for (let power = first; power <= last; power += step) out.push(base ** power);
  return out;
}

function plot(classes, axis) {
  const [width, height, left, right, top, bottom] = [520, 270, 66, 16, 10, 40];
  const isLogX = byId("log-x").checked;
  const isLogY = byId("log-y").checked;
  const x = axisOf(classes.flatMap((one) => one.at), left, width - right, isLogX);
  // An interval may be wide beyond the points: the curves and the points say how high the plot is.
  const y = axisOf(classes.flatMap((one) => [...one.values, ...one.points.map(([, value]) => value)]), height - bottom, top, isLogY);
  const made = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "measured points with their models" });
  for (const value of y.ticks) {
    made.append(drawn("path", { class: "grid", d: `M${left} ${y.place(value).toFixed(1)}H${width - right}` }));
    made.append(drawn("text", { class: "y", x: left - 6, y: y.place(value) + 4 }, quantity(value, classes[0].unit)));
  }
  made.append(drawn("path", { class: "edge", d: `M${left} ${height - bottom}H${width - right}` }));
  for (const value of x.ticks) {
    made.append(drawn("path", { class: "edge", d: `M${x.place(value).toFixed(1)} ${height - bottom}v5` }));
    made.append(drawn("text", { class: "x", x: x.place(value), y: height - bottom + 17 }, String(Number(value.toPrecision(6)))));
  }
  made.append(drawn("text", { class: "x", x: (left + width - right) / 2, y: height - 6 }, printable(axis)));
  classes.forEach((one, i) => made.append(...marks(one, `c${i % COLOURS}`, x, y)));
  return made;
}

function marks(one, shade, x, y) {
  const path = (pairs) => pairs.map(([a, b], i) => `${i ? "L" : "M"}${x.place(a).toFixed(1)} ${y.place(b).toFixed(1)}`).join("");
  const curve = one.at.map((at, i) => [at, one.values[i]]).filter(([, value]) => value !== null);
  const side = (values) => one.at.map((at, i) => [at, values[i]]).filter(([, value]) => value !== null);
  const [lower, upper] = one.bounds.map(side);
  const out = [];
  if (lower.length && upper.length) {
    out.push(drawn("path", { class: `band ${shade}`, d: `${path([...upper, ...lower.reverse()])}Z` }));
  }
  out.push(drawn("path", { class: `line ${shade}`, d: path(curve.filter(([at]) => at <= one.last)) }));
  out.push(drawn("path", { class: `line far ${shade}`, d: path(curve.filter(([at]) => at >= one.last)) }));
  for (const [at, value] of one.points) {
    const mark = drawn("circle", { class: `mark ${shade}`, cx: x.place(at), cy: y.place(value), r: 4 });
    mark.append(drawn("title", {}, `${at}: ${quantity(value, one.unit)}`));
    out.push(mark);
  }
  return out;
}

function drawRuns() {
  byId("runs").replaceChildren(...board.runs.map((run) => {
    const made = element("tr");
    const missing = run.missing.length ? `; missing: ${run.missing.slice(0, 6).join(", ")}${run.missing.length > 6 ? " …" : ""}` : "";
    const isKept = run.state === "sealed" || run.state === "partial";
    const ranks = isKept ? `${run.ended} of ${run.size} ended${missing}` : `${run.seen} of ${run.size} heard, ${run.ended} ended`;
    made.append(element("td", "", printable(run.name)), element("td", run.state, printable(run.state)), element("td", "", ranks));
    return made;
  }));
  byId("findings").replaceChildren(...board.findings.map((finding) => {
    const made = element("li");
    made.append(element("span", "code", printable(finding.code)), printable(finding.text));
    return made;
  }));
  if (!board.findings.length) byId("findings").append(element("li", "dim", "none"));
  const more = board.omitted ? ` · ${board.omitted} more series: \`insitu models\` shows all` : "";
  byId("facts").textContent = `${board.runs.length} runs over ${board.parameters.map(printable).join(", ") || "–"} · ${board.findings.length} findings${more}`;
}

function choices(select, names, value) {
  if ([...select.options].map((one) => one.value).join("\0") !== names.join("\0")) {
    select.replaceChildren(...names.map((name) => {
      const made = element("option", "", printable(name));
      made.value = name;
      return made;
    }));
  }
  select.value = value;
}

function step(by) {
  const place = shown.findIndex(isChosen) + by;
  if (place < 0 || place >= shown.length) return;
  choose(shown[place]);
  drawTree();
  byId("rows").children[place].scrollIntoView({ block: "nearest" });
}

function onKey(event) {
  const isTyping = event.target.matches("input[type=search], select");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping) {
    byId("filter").value = "";
    byId("scroll").focus();
    drawTree();
  } else if (event.key === "ArrowDown" && !event.target.matches("select")) step(1);
  else if (event.key === "ArrowUp" && !event.target.matches("select")) step(-1);
  else if (isTyping) return;
  else if (event.key === "/") byId("filter").focus();
  else if (event.key === "m") {
    const names = [...byId("metric").options].map((one) => one.value);
    setMetric(names[(names.indexOf(metric) + 1) % names.length] || "");
  } else if (event.key === "x" || event.key === "y") byId(`log-${event.key}`).click();
  else if (chosen && event.key === "ArrowLeft" && !folded.has(chosen.path)) toggle(chosen.path);
  else if (chosen && event.key === "ArrowRight" && folded.has(chosen.path)) toggle(chosen.path);
  else return;
  event.preventDefault();
}

function setMetric(name) {
  metric = name;
  drawTree();
  isNew = true;
  ask();
}

function listen() {
  const state = byId("state");
  const events = new EventSource("events");
  events.onmessage = (event) => {
    const told = JSON.parse(event.data);
    byId("campaign").textContent = printable(told.campaign);
    document.title = `${printable(told.campaign)} – insitu`;
    byId("trouble").hidden = !told.trouble;
    byId("trouble").textContent = printable(told.trouble || "");
    if (!told.board) return;
    state.className = told.live ? "live" : "";
    state.textContent = told.live ? "● live" : "○ at rest";
    board = told.board;
    drawRuns();
    drawTree();
    ask();
  };
  events.onerror = () => {
    state.className = "";
    state.textContent = "nobody answers; trying again …";
  };
}

history.replaceState(null, "", location.pathname); // the cookie has the token from here on
document.addEventListener("keydown", onKey);
byId("filter").addEventListener("input", drawTree);
byId("metric").addEventListener("change", (event) => setMetric(event.target.value));
byId("axis").addEventListener("change", () => {
  isNew = true;
  ask();
});
for (const id of ["log-x", "log-y"]) byId(id).addEventListener("change", drawDetail);
listen();
