// The data of the campaign, what the user looks at (kept in the address), and queries to the server.
import { byId, printable } from "./text.js";

export const data = {
  board: { parameters: [], runs: [], series: [], findings: [], omitted: 0 },
  runs: [], // runs in progress, newest first
  course: [], // samples of the newest run in progress, see course.js
  agenda: null, // progress of the runs that campaign.toml plans
  campaign: "",
  target: {}, // values of parameters that views look ahead to by default
  firstRun: "", // how to make the first run
  isLive: false,
  version: 0, // increases with each board; answers to earlier queries are discarded
};

const MAX_PINS = 12; // call paths that are compared
const DEFAULTS = {
  view: "diagnosis",
  metric: "",
  path: "",
  behaviour: "",
  filter: "",
  order: "tree",
  axis: "",
  x: "", // "log", "linear", or "" for what suits the points
  y: "",
  pins: [], // call paths that are compared
  at: {}, // values of parameters
  rivals: false,
  relative: false,
  across: "", // axes of the surface
  down: "",
  run: "", // of the icicle: the id of a run, or "prediction"
  against: "", // what it is compared with
  startUp: false, // whether it contains imports, MPI_Init and MPI_Finalize
};

export const state = structuredClone(DEFAULTS);

const listeners = [];

export function onChange(listener) {
  listeners.push(listener);
}

// Change what is shown. With `isStep`, the back button of the browser returns to the state before.
export function go(changes, isStep = false) {
  Object.assign(state, changes);

  const address = stateHash();
  if (address !== location.hash) {
    if (isStep) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  }
  for (const listener of listeners) listener();
}

// Add a call path to those that are compared, or remove it.
export function togglePin(path) {
  const others = state.pins.filter((pin) => pin !== path);
  const isPinned = others.length < state.pins.length;
  go({ pins: isPinned ? others : [...state.pins, path].slice(-MAX_PINS) });
}

// The address of the current state. Defaults are left out.
export function stateHash() {
  const query = new URLSearchParams();
  for (const [name, initial] of Object.entries(DEFAULTS)) {
    const value = state[name];
    if (name === "view") continue;

    if (name === "pins") {
      for (const pin of value) query.append("pins", pin);
    } else if (name === "at") {
      for (const [parameter, number] of Object.entries(value)) query.append("at", `${parameter}=${number}`);
    } else if (value !== initial) {
      query.set(name, typeof initial === "boolean" ? "yes" : value);
    }
  }

  const text = query.toString();
  return `#${state.view}${text ? `?${text}` : ""}`;
}

// Set the state from the address.
export function readHash(views) {
  const [view, text] = location.hash.slice(1).split(/\?(.*)/s);
  const query = new URLSearchParams(text || "");

  Object.assign(state, structuredClone(DEFAULTS));
  if (views.includes(view)) state.view = view;

  for (const [name, initial] of Object.entries(DEFAULTS)) {
    if (name === "view" || !query.has(name)) continue;

    if (name === "pins") state.pins = query.getAll("pins").filter(Boolean).slice(0, MAX_PINS);
    else if (name === "at") state.at = readAssignments(query.getAll("at"));
    else state[name] = typeof initial === "boolean" ? true : query.get(name);
  }
}

// Values of parameters from texts like "p=64".
function readAssignments(texts) {
  const values = {};
  for (const text of texts) {
    const [name, value] = text.split("=");
    if (value !== undefined && Number.isFinite(Number(value))) values[name] = Number(value);
  }
  return values;
}

const RETRY_MS = 2000;
const MAX_CACHED = 200; // answers
let cache = new Map(); // by address: a promise of the answer
let cacheVersion = 0; // of the data
let retryTimer = 0;

let failure = ""; // why the last query without an answer has none

export function noAnswerText() {
  return failure;
}

async function describeFailure(response) {
  if (!response) return "the server does not answer; trying again …";
  const body = await response.json().catch(() => ({}));
  const reason = printable(body.trouble ?? `error ${response.status}`);
  return response.status === 400 ? reason : `the server failed: ${reason}; trying again …`;
}

// The answer of the server to a query: { name, words, at }. Null if the server does not answer.
// Each query is sent once for each version of the data.
function ask({ name, words, at = {} }) {
  const query = new URLSearchParams(words);
  for (const [parameter, value] of Object.entries(at)) query.append("at", `${parameter}=${value}`);
  const address = `${name}?${query}`;

  if (cacheVersion !== data.version) {
    cache = new Map();
    cacheVersion = data.version;
  }
  if (!cache.has(address)) {
    if (cache.size > MAX_CACHED) cache.clear();
    cache.set(address, fetchAnswer(address, cache));
  }
  return cache.get(address);
}

// A query that failed is sent again later. A query that the server refuses (400) is not.
async function fetchAnswer(address, ownCache) {
  const response = await fetch(address).catch(() => null);
  const isOk = response && response.ok;
  const answer = isOk ? await response.json().catch(() => null) : null;

  if (answer === null) failure = await describeFailure(response);
  if (answer === null && !(response && response.status === 400)) {
    ownCache.delete(address);
    clearTimeout(retryTimer);
    retryTimer = setTimeout(() => go({}), RETRY_MS);
  }
  return answer;
}

let lastRequest = 0;
const drawnRequests = new Map(); // by id of the element: the number of the request that it shows

// The answers to the queries that `listQueries` returns, in their order, for an element of the page.
// Null if the state has changed in the meantime, or if the element already shows newer answers:
// answers arrive in any order.
export async function fetchAnswers(id, listQueries) {
  lastRequest += 1;
  const request = lastRequest;
  const queries = listQueries();

  byId(id).setAttribute("aria-busy", "true");
  const answers = await Promise.all(queries.map(ask));

  const isLate = request < (drawnRequests.get(id) || 0);
  const hasChanged = JSON.stringify(listQueries()) !== JSON.stringify(queries);
  if (isLate || hasChanged) return null;

  drawnRequests.set(id, request);
  byId(id).removeAttribute("aria-busy");
  return answers;
}
