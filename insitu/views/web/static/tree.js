// The call paths, as a tree by cost or as a list. A redraw changes only what differs.
import {
  ARROW, byId, element, fillSelect, formatFactor, formatNumber, formatPercent, formatQuantity, growthOf, printable,
} from "./text.js";
import { data, fetchAnswers, go, state, togglePin } from "./state.js";
import { frameName, fullPath, isStartUp } from "./names.js";
import { outlookTarget } from "./outlook.js";

export const SIGNS = { slower: "▲ ", faster: "▼ ", more: "▲ ", fewer: "▼ " };

const compareTexts = (a, b) => Number(a > b) - Number(a < b);
const byShare = (a, b) => b.share - a.share;

// Orders of the list, one for each column; the tree has its own. "-growth" is the reverse of "growth".
const ORDERS = {
  tree: null,
  cost: byShare,
  ahead: (a, b) => aheadOf(b).share - aheadOf(a).share || byShare(a, b),
  growth: (a, b) => aheadOf(b).growth - aheadOf(a).growth || byShare(a, b),
  name: (a, b) => compareTexts(a.callpath, b.callpath),
  class: (a, b) => compareTexts(a.behaviour, b.behaviour) || byShare(a, b),
  model: (a, b) => compareTexts(a.text, b.text) || byShare(a, b),
  error: (a, b) => (b.smape || 0) - (a.smape || 0),
  deviation: (a, b) => deviationOf(b) - deviationOf(a) || byShare(a, b),
};
const CROWDED = "crowded: "; // before models of times of ranks that shared cores
const TAIL = 14; // characters at the end of a name that are never cut off
const LEAST_HEAD = 3; // characters before them, that are as wide as what a narrow column leaves
const UNKNOWN = { share: -1, growth: -1, shareText: "", growthText: "" };

const folded = new Set(); // paths whose children are hidden
const drawnRows = new Map(); // by key of the line: the elements of its row and their content
let ahead = new Map(); // by call path: its share and growth at the target of the outlook
let distinctHeads = new Set(); // names of functions that their beginnings tell apart better than their ends
let lines = []; // { key, path, behaviour, row, depth, node, isFirst }
let lastRowId = 0;

export const listMetrics = () => [...new Set(data.board.series.map((row) => row.metric))];

export function selectedMetric() {
  const names = listMetrics();
  return names.includes(state.metric) ? state.metric : names[0] || "";
}

const rowsOfMetric = () => {
  const metric = selectedMetric();
  return data.board.series.filter((row) => row.metric === metric);
};

// The selected row; otherwise the first of the selected call path; without one the most expensive apart
// from start-up.
export function selectedRow() {
  const rows = rowsOfMetric();
  const ofPath = rows.filter((row) => row.callpath === state.path);
  if (ofPath.length) return ofPath.find((row) => row.behaviour === state.behaviour) || ofPath[0];
  if (state.path) return null;

  const [mostExpensive] = [...rows].sort((a, b) => isStartUp(a.callpath) - isStartUp(b.callpath) || byShare(a, b));
  return mostExpensive || null;
}

export function selectedPath() {
  const row = selectedRow();
  return row ? row.callpath : state.path;
}

function selectedKey() {
  const row = selectedRow();
  return row ? lineKey(row.callpath, row.behaviour) : lineKey(state.path, "");
}

const lineKey = (path, behaviour) => `${path}\0${behaviour}`;

// By which factor a run in progress deviates from its forecast, at least 1; 0 without a deviation.
export function deviationOf(row) {
  if (!row.verdict || !row.expected || !(row.live > 0)) return 0;
  const ratio = row.live / Math.max(row.expected[1], 1e-300);
  return Math.max(ratio, 1 / ratio);
}

const aheadOf = (row) => (row.metric === ahead.metric && ahead.get(row.callpath)) || UNKNOWN;

// Ask for shares and growth far beyond the measured range; the table has columns for them.
export async function updateAhead() {
  const answers = await fetchAnswers("tree-note", () => {
    const at = outlookTarget();
    return state.view === "paths" && at ? [{ name: "outlook", words: {}, at }] : [];
  });
  const outlook = answers && answers[0];
  if (!outlook || ahead.outlook === outlook) return;

  ahead = new Map();
  Object.assign(ahead, { outlook, metric: outlook.metric });
  for (const row of outlook.rows) {
    const growth = growthOf(row.cost[0], row.now);
    const isGuess = row.then[0] === null || row.unclear !== "";
    const hasShare = !isGuess && !row.is_share_unclear;
    ahead.set(row.callpath, {
      share: hasShare ? row.then[0] : 0,
      shareText: hasShare ? formatPercent(row.then[0]) : "unclear",
      growth: isGuess || growth === null ? 0 : growth,
      growthText: isGuess || growth === null ? "" : formatFactor(Number(growth.toPrecision(2))),
    });
  }

  if (!outlook.rows.length) return;

  const target = Object.entries(outlook.at).map(([name, value]) => `${printable(name)} = ${formatNumber(value)}`);
  drawTree();
  const at = target.join(", ");
  const notes = [["then", `then: share at ${at}`], ["growth", `growth: cost at ${at} in multiples of the cost now`]];
  const shown = notes.filter(([column]) => !byId("tree").classList.contains(`no-${column}`));
  byId("tree-note").textContent = shown.map(([, note]) => note).join("; ");
}

// The call tree of some rows; each node knows the cost of its subtree.
function makeTree(rows) {
  const root = { children: new Map(), cost: 0, rows: [] };

  for (const row of rows) {
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

  joinCallers(root);
  sumCosts(root);
  return root;
}

// A chain of callers without rows and with one child each stands before the name of the last one:
// compiled programs call through twenty frames.
function joinCallers(node) {
  for (const [key, child] of node.children) {
    let last = child;
    while (!last.rows.length && last.children.size === 1) {
      const [callee] = last.children.values();
      callee.frame = last.frame + ARROW + callee.frame;
      last = callee;
    }
    node.children.set(key, last);
    joinCallers(last);
  }
}

function sumCosts(node) {
  node.cost = node.share || 0;
  for (const child of node.children.values()) node.cost += sumCosts(child);
  return node.cost;
}

function matches(row, word) {
  const text = `${row.callpath} ${row.behaviour} ${row.text} ${row.verdict}`;
  return text.toLowerCase().includes(word);
}

// Mark the nodes that match a word, or have a descendant that does.
function markMatches(node, word) {
  node.isMatch = node.rows.some((row) => matches(row, word));
  for (const child of node.children.values()) {
    if (markMatches(child, word)) node.isMatch = true;
  }
  return node.isMatch;
}

// Append the lines below a node, expensive subtrees first. A filter ignores folding.
function appendLines(node, depth, isFiltered, result) {
  const children = [...node.children.values()].sort((a, b) => b.cost - a.cost);
  for (const child of children) {
    if (isFiltered && !child.isMatch) continue;

    const rows = child.rows.length ? child.rows : [null];
    rows.forEach((row, i) => result.push(makeLine(row, child, depth, i === 0)));
    if (isFiltered || !folded.has(child.path)) appendLines(child, depth + 1, isFiltered, result);
  }
}

function makeLine(row, node, depth, isFirst) {
  const behaviour = row ? row.behaviour : "";
  const key = lineKey(node.path, behaviour);
  return { key, path: node.path, behaviour, row, node, depth, isFirst };
}

function listLines() {
  const rows = rowsOfMetric();
  const word = state.filter.trim().toLowerCase();
  const [, sign, name] = /^(-?)(.*)$/s.exec(state.order);
  const order = Object.hasOwn(ORDERS, name) ? ORDERS[name] : null;
  const result = [];

  if (order) {
    const sorted = rows.filter((each) => !word || matches(each, word)).sort(order);
    if (sign) sorted.reverse();
    for (const row of sorted) {
      const node = { path: row.callpath, frame: row.callpath, children: new Map(), share: row.share };
      result.push(makeLine(row, node, 0, true));
    }
    return result;
  }

  const root = makeTree(rows);
  if (word) markMatches(root, word);
  appendLines(root, 0, word !== "", result);
  return result;
}

export function drawTree() {
  fillSelect(byId("metric"), listMetrics(), selectedMetric());
  const order = state.order.replace("-", "");
  fillSelect(byId("order"), Object.keys(ORDERS), Object.hasOwn(ORDERS, order) ? order : "tree");
  markSortedColumn();
  if (byId("filter").value !== state.filter) byId("filter").value = state.filter;

  lines = listLines();
  distinctHeads = findDistinctHeads(new Set(lines.map(({ node }) => frameName(node.frame.split(ARROW).at(-1)))));
  const selected = selectedKey();
  removeOldRows();
  insertRows(selected);

  byId("nothing").hidden = lines.length > 0;
  byId("nothing").textContent = emptyText();
  byId("tree").classList.toggle("idle", !data.runs.length); // hides the column of the run in progress
  byId("tree").classList.toggle("uniform", lines.every(({ row }) => !row || (row.behaviour === "all" && !row.class_text)));
  hideEmptyColumns();
  const row = drawnRows.get(selected);
  byId("scroll").setAttribute("aria-activedescendant", row ? row.tr.id : "");
}

// The names that differ from all others in fewer characters at their beginning than at their end.
function findDistinctHeads(names) {
  const heads = countSharedHeads([...names].map((name) => [name, name]));
  const tails = countSharedHeads([...names].map((name) => [name, [...name].reverse().join("")]));
  return new Set([...names].filter((name) => heads.get(name) < tails.get(name)));
}

// How many characters a text begins with that another one begins with as well, by name: [name, text] each.
function countSharedHeads(pairs) {
  const sorted = [...pairs].sort(([, a], [, b]) => compareTexts(a, b));
  const shared = (a, b) => {
    let count = 0;
    while (count < Math.min(a.length, b.length) && a[count] === b[count]) count += 1;
    return count;
  };
  const counts = new Map();
  sorted.forEach(([name, text], i) => {
    const neighbours = [sorted[i - 1], sorted[i + 1]].filter(Boolean);
    counts.set(name, Math.max(0, ...neighbours.map(([, other]) => shared(text, other))));
  });
  return counts;
}

// Columns without values are hidden, which leaves more room for the names of call paths.
function hideEmptyColumns() {
  for (const [column, text] of [["then", "shareText"], ["growth", "growthText"]]) {
    const hasValue = ({ row }) => row && !["", "unclear"].includes(aheadOf(row)[text]);
    const isEmpty = ahead.metric === selectedMetric() && !lines.some(hasValue);
    byId("tree").classList.toggle(`no-${column}`, isEmpty && lines.length > 0);
  }
  byId("tree").classList.toggle("has-crowded", lines.some(({ row }) => row && isCrowded(row)));
}

// A click on a title sorts by the column, a second click reverses, a third one shows the tree again.
export function sortByColumn(order) {
  const next = { [order]: `-${order}`, [`-${order}`]: "tree" };
  go({ order: next[state.order] || order });
}

function markSortedColumn() {
  for (const title of document.querySelectorAll("#tree th button")) {
    const { order } = title.dataset;
    const sorted = { [order]: "descending", [`-${order}`]: "ascending" }[state.order];
    title.parentElement.setAttribute("aria-sort", sorted || "none");
  }
}

function removeOldRows() {
  const keys = new Set(lines.map((line) => line.key));
  for (const [key, row] of drawnRows) {
    if (keys.has(key)) continue;
    row.tr.remove();
    drawnRows.delete(key);
  }
}

// Rows that are already in their position are not moved.
function insertRows(selected) {
  const body = byId("rows");
  let next = body.firstChild;
  for (const line of lines) {
    const row = drawnRows.get(line.key) || makeRow(line);
    updateRow(row, line, line.key === selected);
    if (row.tr === next) next = next.nextSibling;
    else body.insertBefore(row.tr, next);
  }
}

function emptyText() {
  if (data.board.series.length) return "nothing matches the filter";
  const hasRuns = data.board.runs.length + data.runs.length > 0;
  return hasRuns ? "no model yet: a model needs runs at three scales or more; the icicle shows each run" : printable(data.firstRun);
}

function makeRow(line) {
  const tr = element("tr");
  tr.id = `row-${lastRowId}`;
  lastRowId += 1;
  tr.setAttribute("role", "option");

  const pin = element("input");
  pin.type = "checkbox";
  pin.title = "compare (c)";
  pin.tabIndex = -1; // the list is one tab stop; the key c does the same
  pin.setAttribute("aria-label", "compare this call path");
  pin.addEventListener("click", (event) => event.stopPropagation());
  pin.addEventListener("change", () => togglePin(line.path));

  const fold = element("span", "fold");
  fold.addEventListener("click", (event) => {
    event.stopPropagation();
    toggleFold(line.path);
  });

  // The front may be cut off, then the middle of the leaf.
  const front = element("span", "front");
  const leaf = element("span", "leaf", element("span", "head"), element("span", "tail"));
  const cells = {
    share: element("td", "n"),
    then: element("td", "n then"),
    growth: element("td", "n growth"),
    path: element("td", "path", element("div", "name", pin, fold, front, leaf)),
    behaviour: element("td", "class"),
    model: element("td", "model"),
    error: element("td", "n error"),
    now: element("td", "n now"),
  };
  tr.append(...Object.values(cells));

  const target = { path: line.path, behaviour: line.behaviour };
  tr.addEventListener("click", () => go(target));
  tr.addEventListener("dblclick", () => go({ view: "model", ...target }, true));

  const row = { tr, cells, fold, front, leaf, pin, content: "" };
  drawnRows.set(line.key, row);
  return row;
}

// Write the texts of a row, if they differ from what it shows.
function updateRow(drawn, line, isSelected) {
  const { row, node, isFirst } = line;
  const foldSign = folded.has(node.path) ? "▸" : "▾";
  const texts = {
    share: isFirst && node.share !== null ? formatPercent(node.share) : "",
    then: isFirst && row ? aheadOf(row).shareText : "",
    growth: isFirst && row ? aheadOf(row).growthText : "",
    frames: isFirst ? node.frame.split(ARROW).map(frameName) : [""],
    behaviour: printable((row && row.class_text) || line.behaviour),
    model: row ? modelText(row) : "",
    error: row && row.smape !== null ? formatPercent(row.smape / 100) : "",
    now: row && row.live !== null ? `${SIGNS[row.verdict] || ""}${formatQuantity(row.live, row.unit)}` : "",
    fold: node.children.size ? foldSign : "",
    tail: TAIL,
    verdict: row ? row.verdict : "",
  };
  const isPinned = state.pins.includes(line.path);

  const name = texts.frames.at(-1);
  if (distinctHeads.has(name)) texts.tail = 0; // the end is cut off instead

  const content = JSON.stringify([texts, line.depth, isSelected, isPinned]);
  if (content === drawn.content) return;
  drawn.content = content;

  const { tr, cells, fold, front, leaf, pin } = drawn;
  cells.share.textContent = texts.share;
  cells.path.style.setProperty("--depth", line.depth);
  cells.path.title = fullPath(node.path);
  cells.then.textContent = texts.then;
  cells.growth.textContent = texts.growth;
  front.textContent = texts.frames.slice(0, -1).map((frame) => `${frame} → `).join("");
  const cut = name.length < texts.tail + LEAST_HEAD ? 0 : name.length - texts.tail;
  leaf.firstChild.textContent = name.slice(0, cut);
  leaf.lastChild.textContent = name.slice(cut);
  fold.textContent = texts.fold;
  fold.hidden = !isFirst;
  pin.checked = isPinned;
  pin.hidden = !isFirst || !row;
  cells.behaviour.textContent = texts.behaviour;
  cells.model.textContent = texts.model.replace(CROWDED, "");
  cells.model.title = texts.model;
  cells.model.classList.toggle("crowded", texts.model.startsWith(CROWDED));
  cells.model.classList.toggle("preview", texts.model.startsWith("preview:"));
  cells.error.textContent = texts.error;
  cells.now.textContent = texts.now;
  cells.now.title = forecastText(row);
  tr.className = `${isFirst ? "" : "further "}${isSelected ? "chosen " : ""}${texts.verdict}`;
  tr.setAttribute("aria-selected", String(isSelected));
}

function modelText(row) {
  const hasUnit = row.text && row.unit && row.unit !== "1";
  return hasUnit ? `${printable(row.text)} [${printable(row.unit)}]` : printable(row.text);
}

function isCrowded(row) {
  return Boolean(row.text) && row.text.startsWith(CROWDED);
}

function forecastText(row) {
  if (!row || !row.expected) return "";
  return `forecast by now: ${row.expected.map((value) => formatQuantity(value, row.unit)).join(" … ")}`;
}

function toggleFold(path) {
  if (!folded.delete(path)) folded.add(path);
  drawTree();
}

// Select the line `by` lines below the selected line.
export function moveSelection(by) {
  const selected = selectedKey();
  const line = lines[lines.findIndex((each) => each.key === selected) + by];
  if (!line) return;

  go({ path: line.path, behaviour: line.behaviour });
  drawnRows.get(line.key).tr.scrollIntoView({ block: "nearest" });
}

// Select the first call path that matches the filter itself, and move the keyboard to the list.
export function enterList() {
  const word = state.filter.trim().toLowerCase();
  const selected = lines.find((line) => line.key === selectedKey());
  const isMatch = (line) => line.row !== null && (!word || matches(line.row, word));
  const line = selected && isMatch(selected) ? selected : lines.find(isMatch);
  if (line) go({ path: line.path, behaviour: line.behaviour });
  byId("scroll").focus();
}

export function foldSelected(isFolding) {
  const path = selectedPath();
  const line = lines.find((each) => each.path === path);
  if (line && line.node.children.size && folded.has(path) !== isFolding) toggleFold(path);
}
