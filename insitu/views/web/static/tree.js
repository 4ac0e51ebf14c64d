// The call paths: as a tree by cost, or as a list; drawn once, then only what changed.
import { ARROW, byId, choices, element, percent, printable, quantity } from "./text.js";
import { data, go, state } from "./state.js";

const folded = new Set();
const drawnRows = new Map(); // by key: the row of the table and what it says
let shown = []; // { key, path, behaviour, row, depth, node }

export const metrics = () => [...new Set(data.board.series.map((one) => one.metric))];

export function chosenMetric() {
  const names = metrics();
  return names.includes(state.metric) ? state.metric : names[0] || "";
}

// The row that is looked at: the chosen one, else the first of its call path, else the dearest.
export function chosenRow() {
  const metric = chosenMetric();
  const rows = data.board.series.filter((one) => one.metric === metric);
  return rows.find((one) => one.callpath === state.path && one.behaviour === state.behaviour)
    || rows.find((one) => one.callpath === state.path)
    || (state.path ? null : rows.reduce((best, one) => (best === null || one.share > best.share ? one : best), null));
}

export function chosenPath() {
  const found = chosenRow();
  return found ? found.callpath : state.path;
}

// Nodes of the call tree of one metric, a dear subtree before a cheap one.
function treeOf(series) {
  const root = { children: new Map(), cost: 0, rows: [] };
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

const says = (row, word) => `${row.callpath} ${row.behaviour} ${row.text} ${row.verdict}`.toLowerCase().includes(word);

// A node is wanted where its path, a class or a model below it has the word.
function mark(node, word) {
  node.hit = node.rows.some((row) => says(row, word));
  for (const child of node.children.values()) if (mark(child, word)) node.hit = true;
  return node.hit;
}

function linesOf(node, depth, wanted, out) {
  for (const child of [...node.children.values()].sort((a, b) => b.cost - a.cost)) {
    if (wanted && !child.hit) continue;
    const rows = child.rows.length ? child.rows : [null];
    rows.forEach((row, i) => out.push(lineOf(row, child, depth, i === 0)));
    if (wanted || !folded.has(child.path)) linesOf(child, depth + 1, wanted, out);
  }
  return out;
}

function lineOf(row, node, depth, isFirst) {
  const behaviour = row ? row.behaviour : "";
  return { key: `${node.path}\0${behaviour}`, path: node.path, behaviour, row, node, depth, isFirst };
}

// How far a run in progress is off what was to be expected, as a ratio above 1; 0 where nothing is.
export function offness(row) {
  if (!row.verdict || !row.expected || !(row.live > 0)) return 0;
  const ratio = row.live / Math.max(row.expected[1], 1e-300);
  return Math.max(ratio, 1 / ratio);
}

const ORDERS = {
  tree: null,
  cost: (a, b) => b.share - a.share,
  deviation: (a, b) => offness(b) - offness(a) || b.share - a.share,
  error: (a, b) => (b.smape || 0) - (a.smape || 0),
  name: (a, b) => (a.callpath < b.callpath ? -1 : 1),
};

function wantedLines() {
  const metric = chosenMetric();
  const series = data.board.series.filter((one) => one.metric === metric);
  const word = state.filter.trim().toLowerCase();
  const order = ORDERS[state.order];
  if (order) {
    const rows = series.filter((one) => !word || says(one, word)).sort(order);
    return rows.map((one) => lineOf(one, { path: one.callpath, frame: one.callpath, children: new Map(), share: one.share }, 0, true));
  }
  const root = treeOf(series);
  if (word) mark(root, word);
  return linesOf(root, 0, word !== "", []);
}

export function drawTree() {
  choices(byId("metric"), metrics(), chosenMetric());
  choices(byId("order"), Object.keys(ORDERS), state.order in ORDERS ? state.order : "tree");
  if (byId("filter").value !== state.filter) byId("filter").value = state.filter;
  shown = wantedLines();
  const chosen = chosenKey();
  const body = byId("rows");
  const keys = new Set(shown.map((line) => line.key));
  for (const [key, one] of drawnRows) {
    if (keys.has(key)) continue;
    one.tr.remove();
    drawnRows.delete(key);
  }
  let place = body.firstChild;
  for (const line of shown) {
    const one = drawnRows.get(line.key) || newRow(line);
    fill(one, line, line.key === chosen);
    if (one.tr === place) place = place.nextSibling;
    else body.insertBefore(one.tr, place);
  }
  byId("nothing").hidden = shown.length > 0;
  byId("nothing").textContent = data.board.series.length ? "nothing has that word"
    : data.board.runs.length + data.runs.length ? "nothing is measured yet" : printable(data.firstRun);
  byId("tree").classList.toggle("resting", !data.runs.length); // nothing is there now
  const here = drawnRows.get(chosen);
  byId("scroll").setAttribute("aria-activedescendant", here ? here.tr.id : "");
}

let made = 0;

function newRow(line) {
  const tr = element("tr");
  tr.id = `row-${made++}`;
  tr.setAttribute("role", "option");
  const pin = element("input");
  pin.type = "checkbox";
  pin.title = "compare (c)";
  pin.setAttribute("aria-label", "compare this call path");
  const fold = element("span", "fold");
  const name = element("span");
  const path = element("td", "path", pin, fold, name);
  const cells = ["n", null, "", "model", "n", "n now"].map((kind) => (kind === null ? path : element("td", kind)));
  tr.append(...cells);
  const one = { tr, cells, fold, name, pin, said: [] };
  pin.addEventListener("click", (event) => event.stopPropagation());
  pin.addEventListener("change", () => togglePin(line.path));
  fold.addEventListener("click", (event) => {
    event.stopPropagation();
    toggle(line.path);
  });
  tr.addEventListener("click", () => go({ path: line.path, behaviour: line.behaviour }));
  tr.addEventListener("dblclick", () => go({ view: "model", path: line.path, behaviour: line.behaviour }, true));
  drawnRows.set(line.key, one);
  return one;
}

export const SIGNS = { slower: "▲ ", faster: "▼ ", more: "▲ ", fewer: "▼ " };

function fill(one, line, isChosen) {
  const { row, node, depth, isFirst } = line;
  const fold = node.children.size ? (folded.has(node.path) ? "▸" : "▾") : "";
  const text = row ? printable(row.text) : "";
  const now = row && row.live !== null ? `${SIGNS[row.verdict] || ""}${quantity(row.live, row.unit)}` : "";
  const isPinned = state.pins.includes(line.path);
  const said = [
    isFirst && node.share !== null ? percent(node.share) : "", isFirst ? node.frame : "", row ? row.behaviour : "", text,
    row && row.smape !== null ? percent(row.smape / 100) : "", now, fold, depth, isChosen, isPinned, row ? row.verdict : "",
  ];
  if (said.every((value, i) => value === one.said[i])) return;
  one.said = said;
  const { cells } = one;
  cells[0].textContent = said[0];
  cells[1].style.paddingLeft = `${6 + 14 * depth}px`;
  one.name.textContent = said[1].split(ARROW).map(printable).join(" → ");
  cells[1].title = printable(node.path);
  one.fold.textContent = fold;
  one.fold.hidden = !isFirst;
  one.pin.checked = isPinned;
  one.pin.hidden = !isFirst || !row;
  cells[2].textContent = printable(said[2]);
  cells[3].textContent = text;
  cells[3].title = text;
  cells[3].classList.toggle("preview", text.startsWith("preview:"));
  cells[4].textContent = said[4];
  cells[5].textContent = now;
  cells[5].title = row && row.expected ? `due by now: ${row.expected.map((value) => quantity(value, row.unit)).join(" … ")}` : "";
  one.tr.className = `${isChosen ? "chosen " : ""}${row ? row.verdict : ""}`;
  one.tr.setAttribute("aria-selected", String(isChosen));
}

function chosenKey() {
  const row = chosenRow();
  return row ? `${row.callpath}\0${row.behaviour}` : `${state.path}\0`;
}

export function toggle(path) {
  if (!folded.delete(path)) folded.add(path);
  drawTree();
}

export function togglePin(path) {
  const pins = state.pins.includes(path) ? state.pins.filter((one) => one !== path) : [...state.pins, path].slice(-12);
  go({ pins });
}

export function step(by) {
  const chosen = chosenKey();
  const place = shown.findIndex((line) => line.key === chosen) + by;
  if (place < 0 || place >= shown.length) return;
  go({ path: shown[place].path, behaviour: shown[place].behaviour });
  drawnRows.get(shown[place].key).tr.scrollIntoView({ block: "nearest" });
}

export function foldChosen(isFolding) {
  const path = chosenPath();
  const line = shown.find((one) => one.path === path);
  if (line && line.node.children.size && folded.has(path) !== isFolding) toggle(path);
}
