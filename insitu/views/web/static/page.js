// The page of a campaign: which view is shown, what arrives, what keys do.
import { byId, printable } from "./text.js";
import { data, go, hash, onChange, readHash, state } from "./state.js";
import { redrawAll, watch } from "./plot.js";
import { chosenMetric, chosenPath, drawTree, foldChosen, metrics, step, togglePin } from "./tree.js";
import { drawCompare, drawDetail, drawModel } from "./series.js";
import { drawOutlook } from "./outlook.js";
import { drawFindingsPage, drawRuns, drawSide } from "./runs.js";

const VIEWS = {
  paths: () => { drawTree(); drawDetail(); },
  model: drawModel,
  compare: drawCompare,
  outlook: drawOutlook,
  runs: drawRuns,
  findings: drawFindingsPage,
};
const NAMES = Object.keys(VIEWS);
const RETRY_MS = 2000;
const THEMES = ["auto", "light", "dark"];

function draw() {
  for (const name of NAMES) {
    byId(`view-${name}`).hidden = name !== state.view;
    const tab = byId(`tab-${name}`);
    if (name === state.view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (!data.version) return; // what there is is not known yet
  drawSide();
  VIEWS[state.view]();
}

let events = null;

// A browser has six connections to a server for all of its tabs: one that nobody sees lets go.
function listen() {
  if (events) events.close();
  events = null;
  if (document.hidden) return;
  const mine = new EventSource("events");
  events = mine;
  const told = (text) => {
    byId("trouble").hidden = !text;
    byId("trouble").textContent = printable(text);
  };
  events.addEventListener("board", (event) => {
    const { campaign, board, agenda, first_run: firstRun } = JSON.parse(event.data);
    Object.assign(data, { campaign, board, agenda, firstRun, version: data.version + 1 });
    byId("campaign").textContent = printable(campaign.replace(/.*\/(?=.)/, ""));
    byId("campaign").title = printable(campaign);
    document.title = `${printable(campaign.replace(/.*\/(?=.)/, ""))} – insitu`;
  });
  events.addEventListener("now", (event) => {
    const { live, runs, rows } = JSON.parse(event.data);
    Object.assign(data, { isLive: live, runs });
    for (const row of data.board.series) Object.assign(row, { live: null, expected: null, verdict: "" });
    for (const [place, value, expected, verdict] of rows) {
      Object.assign(data.board.series[place], { live: value, expected, verdict });
    }
    byId("state").className = live ? "live" : "";
    byId("state").textContent = live ? "● live" : "○ at rest";
    told("");
    draw();
  });
  events.addEventListener("trouble", (event) => told(JSON.parse(event.data)));
  events.onerror = async () => {
    const answer = await fetch("link").catch(() => null);
    if (mine !== events || mine.readyState === EventSource.OPEN) return; // it is back already
    byId("state").className = "lost";
    byId("state").textContent = answer && answer.status === 403
      ? "✕ refused: open the address that the server prints now" : "✕ nobody answers; trying again …";
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => mine === events && listen(), RETRY_MS);
  };
}

// A link for others who may see the campaign: with the token, and with what is looked at.
async function share() {
  const response = await fetch("link").catch(() => null);
  if (!response || !response.ok) return;
  const { token } = await response.json();
  const link = `${location.origin}/?token=${token}${hash()}`;
  byId("link").value = link;
  byId("share-box").hidden = false;
  byId("link").focus();
  byId("link").select();
  try {
    await navigator.clipboard.writeText(link);
    byId("copied").textContent = "copied";
  } catch {
    byId("copied").textContent = "copy it with Ctrl-C";
  }
}

function setTheme(name) {
  const known = THEMES.includes(name) ? name : "auto";
  if (known === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = known;
  byId("theme").textContent = { auto: "◐ auto", light: "○ light", dark: "● dark" }[known];
  localStorage.setItem("insitu-theme", known);
  redrawAll();
}

function nextTheme() {
  const now = document.documentElement.dataset.theme || "auto";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

function toggleLog(axis) {
  const box = { paths: `log-${axis}`, model: `m-log-${axis}`, compare: `c-log-${axis}` }[state.view];
  if (box) go({ [axis]: byId(box).checked ? "linear" : "log" });
}

function nextMetric() {
  const names = metrics();
  go({ metric: names[(names.indexOf(chosenMetric()) + 1) % names.length] || "" });
}

const KEYS = {
  "/": () => { go({ view: "paths" }, state.view !== "paths"); byId("filter").focus(); },
  m: nextMetric,
  x: () => toggleLog("x"),
  y: () => toggleLog("y"),
  t: nextTheme,
  c: () => chosenPath() && togglePin(chosenPath()),
  l: share,
  "?": () => { byId("help").hidden = !byId("help").hidden; },
  Enter: () => state.view === "paths" && chosenPath() && go({ view: "model", path: chosenPath() }, true),
  Escape: () => { byId("help").hidden = true; byId("share-box").hidden = true; if (state.view === "model") go({ view: "paths" }, true); },
  ArrowDown: () => step(1),
  ArrowUp: () => step(-1),
  ArrowLeft: () => foldChosen(true),
  ArrowRight: () => foldChosen(false),
};
NAMES.forEach((name, i) => { KEYS[String(i + 1)] = () => go({ view: name }, true); });

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  const isFilter = target.id === "filter";
  if (isFilter && event.key === "Escape") {
    go({ filter: "" });
    byId("scroll").focus();
  } else if (isFilter && (event.key === "ArrowDown" || event.key === "ArrowUp")) KEYS[event.key]();
  else {
    const isTyping = target.matches("input:not([type=checkbox]), select, textarea");
    const isPressed = event.key === "Enter" && target.matches("button, a, input");
    const isArrow = event.key.startsWith("Arrow") && (state.view !== "paths" || target.matches("input, select"));
    if ((isTyping && event.key !== "Escape") || isPressed || isArrow || !KEYS[event.key]) return;
    KEYS[event.key]();
  }
  event.preventDefault();
}

function connect() {
  const on = (id, kind, change) => byId(id).addEventListener(kind, (event) => go(change(event.target)));
  for (const name of NAMES) byId(`tab-${name}`).addEventListener("click", () => go({ view: name }, name !== state.view));
  on("filter", "input", (box) => ({ filter: box.value }));
  for (const id of ["metric", "m-metric", "c-metric"]) on(id, "change", (box) => ({ metric: box.value }));
  for (const id of ["axis", "m-axis", "o-axis"]) on(id, "change", (box) => ({ axis: box.value }));
  on("order", "change", (box) => ({ order: box.value }));
  on("m-class", "change", (box) => ({ behaviour: box.value }));
  on("rivals", "change", (box) => ({ rivals: box.checked }));
  on("relative", "change", (box) => ({ relative: box.checked }));
  on("s-x", "change", (box) => ({ across: box.value }));
  on("s-y", "change", (box) => ({ down: box.value }));
  for (const prefix of ["", "m-", "c-"]) {
    for (const axis of ["x", "y"]) on(`${prefix}log-${axis}`, "change", (box) => ({ [axis]: box.checked ? "log" : "linear" }));
  }
  byId("open").addEventListener("click", () => go({ view: "model", path: chosenPath() }, true));
  byId("theme").addEventListener("click", nextTheme);
  byId("share").addEventListener("click", share);
  byId("help-button").addEventListener("click", KEYS["?"]);
  document.addEventListener("keydown", onKey);
  for (const id of ["plot", "m-plot", "m-residuals", "c-plot"]) watch(byId(id));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  onPaper();
}

// Paper is white, whatever the screen is.
function onPaper() {
  let before;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    Object.assign(document.documentElement.dataset, { theme: "light", paper: "" });
    redrawAll();
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.paper;
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    redrawAll();
  });
}

function look() {
  readHash(NAMES);
  draw();
}

history.replaceState(null, "", location.pathname + location.hash); // the cookie has the token from here on
onChange(draw);
connect();
setTheme(localStorage.getItem("insitu-theme") || "auto");
addEventListener("hashchange", look);
addEventListener("popstate", look);
document.addEventListener("visibilitychange", listen);
look();
listen();
