// The page of a campaign: selects the view, receives events from the server, handles keys.
import { byId, printable } from "./text.js";
import { data, go, onChange, readHash, state, stateHash, togglePin } from "./state.js";
import { redrawAll, watchWidth } from "./plot.js";
import {
  drawTree, enterList, foldSelected, listMetrics, moveSelection, selectedMetric, selectedPath, sortByColumn,
  updateAhead,
} from "./tree.js";
import { drawDetail, drawModel } from "./series.js";
import { drawCompare } from "./compare.js";
import { drawDiagnosis } from "./diagnosis.js";
import { drawOutlook } from "./outlook.js";
import { drawIcicle, moveInIcicle } from "./icicle.js";
import { drawFindingsPage, drawRuns, drawSide } from "./runs.js";

const VIEWS = {
  diagnosis: drawDiagnosis,
  paths: () => {
    drawTree();
    drawDetail();
    updateAhead();
  },
  icicle: drawIcicle,
  model: drawModel,
  compare: drawCompare,
  outlook: drawOutlook,
  runs: drawRuns,
  findings: drawFindingsPage,
};
const VIEW_NAMES = Object.keys(VIEWS);
const RETRY_MS = 2000;
const THEMES = { auto: "◐ auto", light: "○ light", dark: "● dark" };
const THEME_NAMES = Object.keys(THEMES);

function draw() {
  for (const name of VIEW_NAMES) {
    const tab = byId(`tab-${name}`);
    byId(`view-${name}`).hidden = name !== state.view;
    if (name === state.view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }

  if (!data.version) return; // no board has arrived yet
  drawSide();
  VIEWS[state.view]();
}

let events = null;

// Receive events while the tab is visible. A browser allows six connections to a server for all of
// its tabs together: a hidden tab gives up its own.
function connectEvents() {
  if (events) events.close();
  events = null;
  if (document.hidden) return;

  const source = new EventSource("events");
  events = source;
  source.addEventListener("board", (event) => setBoard(JSON.parse(event.data)));
  source.addEventListener("now", (event) => setLiveValues(JSON.parse(event.data)));
  source.addEventListener("trouble", (event) => showTrouble(JSON.parse(event.data)));

  source.onerror = async () => {
    const answer = await fetch("link").catch(() => null);
    if (source !== events || source.readyState === EventSource.OPEN) return; // connected again

    const isRefused = answer && answer.status === 403;
    setStatus("lost", isRefused
      ? "✕ refused: open the address that the server prints now"
      : "✕ the server does not answer; trying again …");
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(() => source === events && connectEvents(), RETRY_MS);
    }
  };
}

// The event `board`: everything that changes rarely.
function setBoard({ campaign, board, agenda, target, first_run: firstRun }) {
  Object.assign(data, { campaign, board, agenda, target, firstRun, version: data.version + 1 });

  const name = printable(campaign.replace(/.*\/(?=.)/, ""));
  byId("campaign").textContent = name;
  byId("campaign").title = printable(campaign);
  document.title = `${name} – insitu`;
}

// The event `now`: the runs in progress and their values, by index of the row.
function setLiveValues({ live, activity, runs, course, rows }) {
  Object.assign(data, { isLive: live, runs, course });

  for (const row of data.board.series) Object.assign(row, { live: null, expected: null, verdict: "" });
  for (const [index, value, expected, verdict] of rows) {
    Object.assign(data.board.series[index], { live: value, expected, verdict });
  }

  if (activity) setStatus("live", `● campaign running: ${printable(activity)}`);
  else setStatus(live ? "live" : "", live ? "● live" : "○ idle");
  showTrouble("");
  draw();
}

function setStatus(className, text) {
  byId("state").className = className;
  byId("state").textContent = text;
}

function showTrouble(text) {
  byId("trouble").hidden = !text;
  byId("trouble").textContent = printable(text);
}

// A link for others who may see the campaign: contains the token and the state of the page.
async function showLink() {
  const response = await fetch("link").catch(() => null);
  if (!response || !response.ok) return;

  const { token } = await response.json();
  const link = `${location.origin}/?token=${token}${stateHash()}`;
  byId("link").value = link;
  byId("share-box").hidden = false;
  byId("link").focus();
  byId("link").select();

  try {
    await navigator.clipboard.writeText(link);
    byId("copied").textContent = "copied";
  } catch {
    byId("copied").textContent = "press Ctrl-C to copy it";
  }
}

function setTheme(choice) {
  const name = THEME_NAMES.includes(choice) ? choice : "auto";
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;

  byId("theme").textContent = THEMES[name];
  localStorage.setItem("insitu-theme", name);
  redrawAll();
}

function selectNextTheme() {
  const current = document.documentElement.dataset.theme || "auto";
  setTheme(THEME_NAMES[(THEME_NAMES.indexOf(current) + 1) % THEME_NAMES.length]);
}

function toggleLogarithmic(axis) {
  const prefix = { paths: "", model: "m-", compare: "c-" }[state.view];
  if (prefix === undefined) return;
  const isLog = byId(`${prefix}log-${axis}`).checked;
  go({ [axis]: isLog ? "linear" : "log" });
}

function selectNextMetric() {
  const names = listMetrics();
  go({ metric: names[(names.indexOf(selectedMetric()) + 1) % names.length] || "" });
}

function focusFilter() {
  go({ view: "paths" }, state.view !== "paths");
  byId("filter").focus();
}

function openModel() {
  if (selectedPath()) go({ view: "model", path: selectedPath() }, true);
}

function toggleHelp() {
  byId("help").hidden = !byId("help").hidden;
}

function goBack() {
  byId("help").hidden = true;
  byId("share-box").hidden = true;
  if (state.view === "model") go({ view: "paths" }, true);
  if (state.view === "icicle") moveInIcicle("ArrowUp");
}

const KEYS = {
  "/": focusFilter,
  m: selectNextMetric,
  x: () => toggleLogarithmic("x"),
  y: () => toggleLogarithmic("y"),
  t: selectNextTheme,
  c: () => selectedPath() && togglePin(selectedPath()),
  l: showLink,
  "?": toggleHelp,
  Enter: () => state.view === "paths" && openModel(),
  Escape: goBack,
  ArrowDown: (key) => (state.view === "icicle" ? moveInIcicle(key) : moveSelection(1)),
  ArrowUp: (key) => (state.view === "icicle" ? moveInIcicle(key) : moveSelection(-1)),
  ArrowLeft: (key) => (state.view === "icicle" ? moveInIcicle(key) : foldSelected(true)),
  ArrowRight: (key) => (state.view === "icicle" ? moveInIcicle(key) : foldSelected(false)),
};
VIEW_NAMES.forEach((name, i) => { KEYS[String(i + 1)] = () => go({ view: name }, true); });

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { key, target } = event;

  if (target.id === "filter" && key === "Escape") {
    go({ filter: "" });
    byId("scroll").focus();
  } else if (target.id === "filter" && key === "Enter") {
    enterList();
  } else if (target.id === "filter" && (key === "ArrowDown" || key === "ArrowUp")) {
    KEYS[key]();
  } else if (KEYS[key] && !belongsToTarget(key, target)) {
    KEYS[key](key);
  } else {
    return;
  }
  event.preventDefault();
}

// Whether a key is meant for the focused element: text for a field, Enter for a button.
function belongsToTarget(key, target) {
  const isTyping = target.matches("input:not([type=checkbox]), select, textarea");
  if (isTyping && key !== "Escape") return true;
  if (key === "Enter") return target.matches("button, a, input");
  if (key.startsWith("Arrow")) return !["paths", "icicle"].includes(state.view) || target.matches("input, select");
  return false;
}

function addListeners() {
  const connect = (id, kind, change) => {
    byId(id).addEventListener(kind, (event) => go(change(event.target)));
  };

  for (const name of VIEW_NAMES) {
    byId(`tab-${name}`).addEventListener("click", () => go({ view: name }, name !== state.view));
  }
  connect("filter", "input", (box) => ({ filter: box.value }));
  for (const id of ["metric", "m-metric", "c-metric"]) connect(id, "change", (box) => ({ metric: box.value }));
  for (const id of ["axis", "m-axis", "o-axis"]) connect(id, "change", (box) => ({ axis: box.value }));
  connect("i-run", "change", (box) => ({ run: box.value, path: "" }));
  connect("i-against", "change", (box) => ({ against: box.value === "nothing" ? "" : box.value }));
  connect("start-up", "change", (box) => ({ startUp: box.checked }));
  connect("order", "change", (box) => ({ order: box.value }));
  connect("m-class", "change", (box) => ({ behaviour: box.value }));
  connect("rivals", "change", (box) => ({ rivals: box.checked }));
  connect("relative", "change", (box) => ({ relative: box.checked }));
  connect("s-x", "change", (box) => ({ across: box.value }));
  connect("s-y", "change", (box) => ({ down: box.value }));
  for (const prefix of ["", "m-", "c-"]) {
    for (const axis of ["x", "y"]) {
      connect(`${prefix}log-${axis}`, "change", (box) => ({ [axis]: box.checked ? "log" : "linear" }));
    }
  }

  for (const title of document.querySelectorAll("#tree th button")) {
    title.addEventListener("click", () => sortByColumn(title.dataset.order));
  }
  byId("open").addEventListener("click", openModel);
  byId("theme").addEventListener("click", selectNextTheme);
  byId("share").addEventListener("click", showLink);
  byId("help-button").addEventListener("click", toggleHelp);
  document.addEventListener("keydown", onKey);
  for (const id of ["plot", "m-plot", "m-residuals", "c-plot"]) watchWidth(byId(id));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  preparePrinting();
}

// Print in the light theme, whatever the screen shows.
function preparePrinting() {
  let themeBefore;
  addEventListener("beforeprint", () => {
    themeBefore = document.documentElement.dataset.theme;
    Object.assign(document.documentElement.dataset, { theme: "light", paper: "" });
    redrawAll();
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.paper;
    if (themeBefore) document.documentElement.dataset.theme = themeBefore;
    else delete document.documentElement.dataset.theme;
    redrawAll();
  });
}

function showAddress() {
  readHash(VIEW_NAMES);
  draw();
}

history.replaceState(null, "", location.pathname + location.hash); // the cookie holds the token from now on
onChange(draw);
addListeners();
setTheme(localStorage.getItem("insitu-theme") || "auto");
addEventListener("hashchange", showAddress);
addEventListener("popstate", showAddress);
document.addEventListener("visibilitychange", connectEvents);
showAddress();
connectEvents();
