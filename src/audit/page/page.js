
"use strict";
(() => {
// The viewer. It knows a conversation by two kinds of data: `ctxlog.lanes/1`, which holds no words,
// and pieces of `ctxlog.words/1`, looked into when words are asked for. Whatever comes from a
// conversation becomes text, and nothing but text: see `show` and `make`.

// ---- data

const D = JSON.parse(document.getElementById("data").textContent);
const M = D.messages, LIVES = D.lives, FORMS = D.forms, AWAY = D.absences, REFUSED = D.refusals;
const CALLS = D.calls.seq, VISITS = D.visits;
const COUNT = M.seq.length, HEAD = D.head ? D.head.seq : 0;
const REASON = new Map(D.reasons.map(([code, name, sentence]) => [code, { name, sentence }]));
const REFUSAL = new Map(D.refusal_reasons.map(([code, name, sentence]) => [code, { name, sentence }]));
const REDACTED = new Set(D.redacted);
const GLYPHS = ["S", "P", "M", "T", "\u03a3", "N", "A"];
const SUMMARIZED = 7, OBSERVED = 8, REPLACED = 9, SUPERSEDED = 10;

// How many numbers of an ascending list are less than `x`.
function below(list, x) {
  let from = 0, to = list.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (list[middle] < x) from = middle + 1; else to = middle;
  }
  return from;
}

// Where each message's rows begin, in a table that is in the order of messages.
function starts(column) {
  const at = new Int32Array(COUNT + 1);
  for (const message of column) at[message + 1]++;
  for (let i = 0; i < COUNT; i++) at[i + 1] += at[i];
  return at;
}

const livesAt = starts(LIVES.message), formsAt = starts(FORMS.message);
const awayAt = starts(AWAY.message), refusedAt = starts(REFUSED.message);
const order = Array.from({ length: COUNT }, (_, i) => i)
  .sort((a, b) => M.place[a] - M.place[b] || M.seq[a] - M.seq[b]);
const sources = new Map(); // by the seq of what stands for them
function stands(table) {
  table.stand_in.forEach((seq, row) => {
    if (!seq) return;
    if (!sources.has(seq)) sources.set(seq, new Set());
    sources.get(seq).add(table.message[row]);
  });
}
stands(LIVES); stands(AWAY);

const iterationOf = (seq) => 1 + below(CALLS, seq);
const indexOf = (seq) => { const i = below(M.seq, seq); return M.seq[i] === seq ? i : -1; };
const idOf = (m) => "m" + M.seq[m];

function contains(life, seq) {
  return LIVES.entered[life] <= seq && (!LIVES.left[life] || LIVES.left[life] > seq);
}

function visible(m, seq) {
  for (let life = livesAt[m]; life < livesAt[m + 1]; life++) if (contains(life, seq)) return true;
  return false;
}

// Why a message is not in the window after an entry; null where it is, or was not logged yet.
function absent(m, seq) {
  if (visible(m, seq)) return null;
  let found = null, since = -1;
  for (let life = livesAt[m]; life < livesAt[m + 1]; life++) {
    const left = LIVES.left[life];
    if (left && left <= seq && left >= since) {
      since = left;
      found = { by: left, reason: LIVES.reason[life], standIn: LIVES.stand_in[life] };
    }
  }
  for (let row = awayAt[m]; row < awayAt[m + 1]; row++) {
    if (AWAY.since[row] <= seq && AWAY.since[row] >= since) {
      since = AWAY.since[row];
      found = { by: AWAY.by[row], reason: AWAY.reason[row], standIn: AWAY.stand_in[row] };
    }
  }
  return found;
}

// `visible`, `evicted`, `covered` or `not-yet`: what `ctxlog why` says.
function status(m, seq) {
  if (M.seq[m] > seq) return "not-yet";
  for (let steps = 0, covered = false; steps <= COUNT; steps++) {
    if (visible(m, seq)) return covered ? "covered" : "visible";
    const end = absent(m, seq);
    if (!end) break;
    if (end.reason === SUPERSEDED) return "covered";
    m = end.standIn ? indexOf(end.standIn) : -1;
    if (m < 0) break;
    covered = true;
  }
  return "evicted";
}

// The content of a message that was in force after an entry.
function formOf(m, seq) {
  let form = { given: M.seq[m], tokens: M.tokens[m] };
  for (let row = formsAt[m]; row < formsAt[m + 1] && FORMS.since[row] <= seq; row++) {
    form = { given: FORMS.given[row], tokens: FORMS.tokens[row] };
  }
  return form;
}

function why(m, seq) {
  const next = iterationOf(seq + 1), lives = [], refusals = [], forms = [];
  let seen = 0, first = 0, last = 0;
  for (let life = livesAt[m]; life < livesAt[m + 1]; life++) {
    const entered = LIVES.entered[life];
    if (entered > seq) continue;
    const ended = LIVES.left[life] && LIVES.left[life] <= seq;
    const until = ended ? iterationOf(LIVES.left[life]) : next;
    const calls = until - iterationOf(entered);
    if (calls > 0) { seen += calls; first = first || iterationOf(entered); last = until - 1; }
    lives.push({
      entered, calls, left: ended ? LIVES.left[life] : 0, reason: LIVES.reason[life],
      strategy: LIVES.strategy[life], standIn: LIVES.stand_in[life],
    });
  }
  for (let row = formsAt[m]; row < formsAt[m + 1] && FORMS.since[row] <= seq; row++) {
    forms.push({ since: FORMS.since[row], reason: FORMS.reason[row] });
  }
  for (let row = refusedAt[m]; row < refusedAt[m + 1]; row++) {
    if (REFUSED.first[row] > seq) continue;
    const strategy = REFUSED.strategy[row];
    let visits = 0, until = REFUSED.first[row];
    for (let v = below(VISITS.seq, until); v < VISITS.seq.length; v++) {
      const at = VISITS.seq[v];
      if (at > seq || at > REFUSED.last[row]) break;
      if (VISITS.strategy[v] === strategy && VISITS.asked[v]) { visits++; until = at; }
    }
    refusals.push({ reason: REFUSED.reason[row], strategy, first: REFUSED.first[row], last: until, visits });
  }
  const what = status(m, seq), end = what === "not-yet" ? null : absent(m, seq);
  const missed = what === "not-yet" ? 0 : next - iterationOf(M.seq[m]) - seen;
  return { status: what, lives, forms, refusals, seen, first, last, missed, end, restore: restore(m, seq, what, end) };
}

function restore(m, seq, what, end) {
  if (what === "visible" || what === "not-yet") return null;
  let target = idOf(m);
  if (what === "covered") {
    if (end.reason === SUPERSEDED) {
      const newer = indexOf(end.standIn);
      if (newer < 0 || visible(newer, seq)) return null;
      target = idOf(newer);
    } else {
      target = "s:" + end.by;
    }
  }
  return ["restore", target];
}

// Everything that happened, in order: what changed between two moments is a slice of it.
const events = [];
for (let life = 0; life < LIVES.message.length; life++) {
  const m = LIVES.message[life];
  events.push({ seq: LIVES.entered[life], sign: "+", m, text: LIVES.entered[life] === M.seq[m] ? "" : "came back" });
  if (LIVES.left[life]) {
    const by = LIVES.stand_in[life] ? ": m" + LIVES.stand_in[life] + " stands for it" : "";
    events.push({ seq: LIVES.left[life], sign: "-", m, text: REASON.get(LIVES.reason[life]).name + by });
  }
}
FORMS.message.forEach((m, row) => events.push({ seq: FORMS.since[row], sign: "~", m, text: "another content" }));
REFUSED.message.forEach((m, row) => events.push(
  { seq: REFUSED.first[row], sign: "!", m, text: "refused, " + REFUSAL.get(REFUSED.reason[row]).name }));
events.sort((a, b) => a.seq - b.seq || M.seq[a.m] - M.seq[b.m]);
const eventSeqs = events.map((e) => e.seq);

// Tokens by kind at each call, and now.
const STOPS = [...CALLS, HEAD + 1];
const stack = D.kinds.map(() => new Float64Array(STOPS.length + 1));
function span(m, from, to, tokens) {
  const changes = stack[M.kind[m]];
  changes[below(STOPS, from)] += tokens;
  changes[to ? below(STOPS, to) : STOPS.length] -= tokens;
}
for (let life = 0; life < LIVES.message.length; life++) {
  const m = LIVES.message[life], end = LIVES.left[life];
  let from = LIVES.entered[life], tokens = formOf(m, from).tokens;
  for (let row = formsAt[m]; row < formsAt[m + 1]; row++) {
    const since = FORMS.since[row];
    if (since > from && (!end || since < end)) { span(m, from, since, tokens); from = since; tokens = FORMS.tokens[row]; }
  }
  span(m, from, end, tokens);
}
let peak = D.limit || 1;
for (const changes of stack) for (let i = 0; i + 1 < changes.length; i++) changes[i + 1] += changes[i];
for (let i = 0; i < STOPS.length; i++) peak = Math.max(peak, stack.reduce((sum, s) => sum + s[i], 0));
const refusalStops = new Set(REFUSED.first.map((seq) => below(STOPS, seq)));

// ---- words, in pieces that are read when they are needed

const read = new Map();
function pieces() { return document.querySelectorAll("script.words"); }

function piece(node) {
  if (!read.has(node)) {
    const found = new Map();
    for (const item of JSON.parse(node.textContent).contents) found.set(item.message + ":" + item.given, item);
    read.set(node, found);
  }
  return read.get(node);
}

function wordsOf(m, given) {
  for (const node of pieces()) {
    if (Number(node.dataset.first) <= M.seq[m] && M.seq[m] <= Number(node.dataset.last)) {
      const found = piece(node).get(M.seq[m] + ":" + given);
      if (found) return found;
    }
  }
  return null;
}

// ---- text

// What a terminal or a browser would act on is spelled out; line breaks and tabs stay.
const HOSTILE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const show = (text) => String(text).replace(HOSTILE, (c) => "\\u{" + c.charCodeAt(0).toString(16) + "}");
const number = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
const things = (n, word) => number(n) + " " + word + (n === 1 ? "" : "s");
const quoted = (word) => (/^[\w.\/:@%+=,-]+$/.test(word) ? word : "'" + word.replace(/'/g, "'\\''") + "'");
const command = (...words) => ["ctxlog", ...words, "-c", D.conversation].map(quoted).join(" ");
const $ = (id) => document.getElementById(id);

function make(tag, text, name) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = show(text);
  if (name) node.className = name;
  return node;
}

function moment(seq) {
  const i = below(CALLS, seq);
  return CALLS[i] === seq ? "it:" + (i + 1) : "s:" + seq;
}
const when = (seq) => "it:" + iterationOf(seq) + "  s:" + seq;

// ---- a list of any length, of which only the rows in sight are there

const ROW = 20;
class List {
  constructor(node, row) {
    this.node = node; this.row = row; this.items = [];
    this.room = make("div");
    node.append(this.room);
    node.addEventListener("scroll", () => this.draw());
  }
  set(items) {
    this.items = items;
    this.room.style.height = items.length * ROW + "px";
    this.draw();
  }
  draw() {
    const from = Math.floor(this.node.scrollTop / ROW);
    const to = Math.min(this.items.length, from + Math.ceil(this.node.clientHeight / ROW) + 1);
    const rows = [];
    for (let i = Math.max(0, from); i < to; i++) {
      const { text, m, seq } = this.row(this.items[i]);
      const node = make("button", text, m === picked ? "picked" : "");
      node.type = "button";
      node.style.top = i * ROW + "px";
      node.dataset.m = idOf(m);
      node.addEventListener("click", () => { if (seq !== undefined) moveTo(seq); pick(m); });
      rows.push(node);
    }
    this.room.replaceChildren(...rows);
  }
}

// ---- state: one cursor, one message, and the other moment where two are compared

let cursor = HEAD, picked = -1, filter = "all", rows = order, found = null, other = -1;
const windowList = new List($("window"), (m) => {
  const tokens = formOf(m, cursor).tokens;
  const fresh = M.seq[m] > before() ? "  new" : "";
  return { m, text: [idOf(m).padEnd(8), GLYPHS[M.kind[m]], D.kinds[M.kind[m]].padEnd(11), number(tokens).padStart(8)].join(" ") + marks(m) + fresh };
});
const changedList = new List($("changed"), (e) => e.snippet !== undefined
  ? { m: e.m, text: idOf(e.m).padEnd(8) + " " + e.snippet.replace(/\s+/g, " ") }
  : { m: e.m, seq: undefined, text: e.sign + " " + idOf(e.m).padEnd(8) + " " + D.kinds[M.kind[e.m]].padEnd(11) + " " + e.text });

function marks(m) {
  const stood = sources.get(M.seq[m]);
  return (stood ? "  for " + stood.size : "") + (REDACTED.has(M.seq[m]) ? "  redacted" : "");
}

// The moment before the cursor: the call before, or the entry before where it stands between calls.
function before() {
  const i = below(CALLS, cursor);
  if (CALLS[i] !== cursor && cursor !== HEAD) return cursor - 1;
  return i > 0 ? CALLS[i - 1] : -1;
}

function moveTo(seq) {
  cursor = Math.min(Math.max(seq, 0), HEAD);
  const visibleNow = order.filter((m) => visible(m, cursor));
  const tokens = visibleNow.reduce((sum, m) => sum + formOf(m, cursor).tokens, 0);
  const at = moment(cursor), now = cursor === HEAD ? "  now" : "";
  $("slider").value = below(CALLS, cursor);
  $("slider").setAttribute("aria-valuetext", at);
  $("at").textContent = at + now;
  const limit = D.limit ? " / " + number(D.limit) + " tok (" + Math.round(tokens * 100 / D.limit) + " %)" : " tok";
  $("size").textContent = number(tokens) + limit;
  $("window-title").textContent = "WINDOW AT " + at + "  " + things(visibleNow.length, "message") + ", " + number(tokens) + " tok";
  windowList.set(visibleNow);
  changes();
  if (filter === "window") lanes();
  drawChart(); drawLanes(); explain(); remember();
}

function changes() {
  if (found) {
    $("changed-title").textContent = "FOUND " + things(found.length, "message") + (found.more ? " (the first)" : "");
    changedList.set(found);
    return;
  }
  if (other >= 0) { compared(); return; }
  const since = before();
  const list = events.slice(below(eventSeqs, since + 1), below(eventSeqs, cursor + 1));
  $("changed-title").textContent = "CHANGED since " + (since < 0 ? "the beginning" : moment(since)) + "  " + things(list.length, "change");
  changedList.set(list);
}

// What left, what came and what has another content, from the other moment to the cursor; each with what
// the newest change between them says of it. Backwards, what came there is what is not there here.
function compared() {
  const from = Math.min(other, cursor), to = Math.max(other, cursor);
  const said = new Map(); // by message and sign
  for (const e of events.slice(below(eventSeqs, from + 1), below(eventSeqs, to + 1))) said.set(e.m + e.sign, e);
  const list = [], counts = { "-": 0, "+": 0, "~": 0 };
  for (const m of order) {
    const there = visible(m, other), here = visible(m, cursor);
    const again = there && here && formOf(m, other).given !== formOf(m, cursor).given;
    if (there === here && !again) continue;
    const sign = again ? "~" : here ? "+" : "-";
    const then = cursor >= other ? sign : { "-": "+", "+": "-", "~": "~" }[sign];
    const e = said.get(m + then);
    counts[sign]++;
    list.push({ sign, m, text: e ? [moment(e.seq), e.text].join("  ") : "" });
  }
  $("changed-title").textContent = "FROM " + moment(other) + " TO " + moment(cursor) + "  " +
    counts["-"] + " left, " + counts["+"] + " came, " + counts["~"] + " changed";
  $("changed-title").title = command("diff", moment(other), moment(cursor));
  changedList.set(list);
}

function compare() {
  other = other >= 0 ? -1 : cursor;
  $("compare").setAttribute("aria-pressed", String(other >= 0));
  $("compare").textContent = other >= 0 ? "from " + moment(other) : "compare";
  if (other < 0) $("changed-title").removeAttribute("title");
  changes(); drawChart(); drawLanes(); remember();
}

function step(by) {
  const i = below(CALLS, cursor);
  if (by < 0) moveTo(i > 0 ? CALLS[i - 1] : cursor);
  else { const next = CALLS[i] === cursor ? i + 1 : i; moveTo(next < CALLS.length ? CALLS[next] : HEAD); }
}

function pick(m) {
  picked = m;
  const row = rows.indexOf(m);
  if (row >= 0) {
    const view = $("lanes"), top = row * LANE;
    if (top < view.scrollTop || top + LANE > view.scrollTop + view.clientHeight) view.scrollTop = top - view.clientHeight / 2;
  }
  windowList.draw(); changedList.draw(); drawLanes(); explain(); remember();
}

// Neighbours to whom the same happened, as one lane: by its first message, how many more it stands for.
const run = new Map();
function together(all) {
  const fate = (m) => {
    const alone = m === picked || sources.has(M.seq[m]) || REDACTED.has(M.seq[m]) ||
      livesAt[m + 1] - livesAt[m] !== 1 || formsAt[m] < formsAt[m + 1] || refusedAt[m] < refusedAt[m + 1];
    const life = livesAt[m];
    return alone ? "m" + m : [LIVES.left[life], LIVES.reason[life], LIVES.stand_in[life]].join(" ");
  };
  const kept = [];
  let before = "";
  for (const m of all) {
    const now = fate(m);
    if (kept.length && now === before) { const first = kept[kept.length - 1]; run.set(first, (run.get(first) || 0) + 1); }
    else kept.push(m);
    before = now;
  }
  return kept;
}

function lanes() {
  const tests = {
    all: () => true,
    window: (m) => visible(m, cursor),
    left: (m) => !visible(m, HEAD),
    refused: (m) => refusedAt[m] < refusedAt[m + 1],
    summary: (m) => sources.has(M.seq[m]),
    runs: () => true,
  };
  rows = order.filter(tests[filter]);
  run.clear();
  if (filter === "runs") rows = together(rows);
  $("room").style.height = Math.max(rows.length * LANE, 1) + "px";
}

// ---- why

function explain() {
  const panel = $("why"), m = picked;
  if (m < 0) { panel.replaceChildren(make("p", "Pick a message, in a lane or in a list, to see what became of it.")); return; }
  const w = why(m, cursor), list = make("dl");
  const row = (name, text, warn) => list.append(make("dt", name), make("dd", text, warn ? "warn" : ""));
  const link = (name, seq) => {
    const cell = make("dd"), go = make("button", "m" + seq, "go");
    go.type = "button";
    go.addEventListener("click", () => pick(indexOf(seq)));
    cell.append(go);
    list.append(make("dt", name), cell);
  };
  for (const life of w.lives) {
    row("entered", when(life.entered));
    if (!life.left) continue;
    const reason = REASON.get(life.reason);
    row("left", when(life.left) + "  " + reason.name + " after " + things(life.calls, "call"), true);
    row("", reason.sentence);
    if (life.strategy) row("strategy", D.strategies[life.strategy - 1]);
    if (life.standIn && indexOf(life.standIn) >= 0) link("covered by", life.standIn);
  }
  for (const form of w.forms) row("form", when(form.since) + (form.reason ? "  " + REASON.get(form.reason).name : ""));
  if (w.status !== "not-yet") {
    row("seen by", things(w.seen, "model call") + (w.seen ? ", it:" + w.first + (w.last > w.first ? " to it:" + w.last : "") : ""));
    if (w.missed > 0) row("missed by", things(w.missed, "model call"));
  }
  for (const r of w.refusals) {
    const reason = REFUSAL.get(r.reason);
    row("refused", "it:" + iterationOf(r.first) + (iterationOf(r.last) > iterationOf(r.first) ? " to it:" + iterationOf(r.last) : "") +
      "  " + things(r.visits, "visit") + "  " + reason.name + ": " + reason.sentence);
  }
  const stood = sources.get(M.seq[m]);
  if (stood) {
    const ids = [...stood].slice(0, 40).map(idOf).join(" ");
    row("stands for", things(stood.size, "message") + ": " + ids + (stood.size > 40 ? " \u2026" : ""));
  }
  if (w.restore) row("bring back", command(...w.restore));
  row("look", command("why", idOf(m), "--at", moment(cursor)));
  const form = formOf(m, cursor);
  const title = idOf(m) + "  " + D.kinds[M.kind[m]] + "  " + number(form.tokens) + " tok  " + w.status + " at " + moment(cursor);
  panel.replaceChildren(make("h2", title), list, ...contents(m, form.given));
  panel.dataset.status = w.status;
}

function contents(m, given) {
  if (D.words === false) return [make("p", "This page was made without words. See " + command("show", "s:" + given))];
  const item = wordsOf(m, given);
  if (item && item.redacted) return [make("p", "[redacted] Its words were destroyed.", "warn")];
  if (!item) return [make("p", document.readyState === "loading" ? "Its words are still being read." : "Its words are not in this page.")];
  const nodes = [];
  for (const part of item.parts) {
    if (part.type !== "text") nodes.push(make("h2", part.type + (part.name ? " " + part.name : "")));
    // The head of a result has no words of its own: what it holds follows.
    if (part.text || part.type === "text") nodes.push(make("pre", part.text));
  }
  if (item.more) nodes.push(make("p", "\u2026 " + number(item.more) + " more bytes, see " + command("show", "s:" + given), "warn"));
  return nodes;
}

// ---- find

function find(text) {
  found = null;
  const id = /^m(\d+)$/.exec(text.trim());
  if (id && indexOf(Number(id[1])) >= 0) { changes(); pick(indexOf(Number(id[1]))); return; }
  if (text.trim()) {
    const wanted = text.toLowerCase();
    found = [];
    const known = new Set();
    for (const node of pieces()) {
      for (const item of piece(node).values()) {
        if (found.length >= 1000) { found.more = true; break; }
        if (item.redacted || known.has(item.message)) continue;
        for (const part of item.parts) {
          const at = part.text.toLowerCase().indexOf(wanted);
          if (at < 0) continue;
          known.add(item.message);
          found.push({ m: indexOf(item.message), snippet: part.text.slice(Math.max(0, at - 20), at + 120) });
          break;
        }
      }
    }
  }
  changes();
}

// ---- drawing

const LANE = 16, GUTTER = 150, EDGE = 10;
let ink = {};
function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  ink = { paper: of("--paper"), ink: of("--ink"), dim: of("--dim"), line: of("--line"), pick: of("--pick"), warn: of("--warn") };
  ink.kinds = D.kinds.map((_, kind) => of("--k" + kind));
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = ink.paper; pen.lineWidth = 2;
  pen.beginPath(); pen.moveTo(-1, 7); pen.lineTo(7, -1); pen.stroke();
  ink.hatch = pen.createPattern(tile, "repeat");
}

function prepare(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const w = Math.round(width * scale), h = Math.round(height * scale);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; canvas.style.height = height + "px"; }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
  pen.textBaseline = "middle";
  return pen;
}

let wide = 800; // of the lanes' canvas: the chart above has the same columns
const cell = () => (wide - GUTTER - EDGE) / STOPS.length;
const left = (stop) => GUTTER + cell() * stop;

function drawCursor(pen, height) {
  pen.strokeStyle = ink.ink; pen.lineWidth = 1;
  const line = (seq) => {
    const x = Math.round(left(below(STOPS, seq) + 0.5)) + 0.5;
    pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, height); pen.stroke();
  };
  line(cursor);
  if (other >= 0) { pen.setLineDash([4, 4]); line(other); pen.setLineDash([]); }
}

// All of the chart but the cursor is the same at every step: it is drawn once, and copied.
const CHART = 104;
let chart = null;
function drawChart() {
  if (!chart) { chart = document.createElement("canvas"); drawStack(); }
  const pen = prepare($("chart"), $("chart").clientWidth, CHART);
  pen.save(); pen.setTransform(1, 0, 0, 1, 0, 0); pen.drawImage(chart, 0, 0); pen.restore();
  drawCursor(pen, CHART - 12);
}

function drawStack() {
  const height = CHART, top = 10, bottom = height - 22;
  const pen = prepare(chart, $("chart").clientWidth, height);
  const y = (tokens) => bottom - (bottom - top) * tokens / peak;
  const floor = new Float64Array(STOPS.length);
  stack.forEach((tokens, kind) => {
    pen.fillStyle = ink.kinds[kind];
    pen.beginPath();
    pen.moveTo(left(0), y(floor[0]));
    for (let i = 0; i < STOPS.length; i++) { pen.lineTo(left(i), y(floor[i] + tokens[i])); pen.lineTo(left(i + 1), y(floor[i] + tokens[i])); }
    for (let i = STOPS.length - 1; i >= 0; i--) { pen.lineTo(left(i + 1), y(floor[i])); pen.lineTo(left(i), y(floor[i])); floor[i] += tokens[i]; }
    pen.fill();
  });
  pen.fillStyle = ink.dim; pen.textAlign = "right";
  pen.fillText("0 tok", GUTTER - 6, bottom);
  pen.fillText(number(peak), GUTTER - 6, y(peak));
  if (D.limit) {
    pen.strokeStyle = ink.warn; pen.setLineDash([5, 3]);
    pen.beginPath(); pen.moveTo(GUTTER, y(D.limit)); pen.lineTo(wide - EDGE, y(D.limit)); pen.stroke(); pen.setLineDash([]);
    if (Math.abs(y(D.limit) - y(peak)) > 12 && bottom - y(D.limit) > 12) pen.fillText("limit " + number(D.limit), GUTTER - 6, y(D.limit));
  }
  pen.textAlign = "center"; pen.fillStyle = ink.warn;
  for (const stop of refusalStops) pen.fillText("!", left(stop + 0.5), height - 17);
  pen.fillStyle = ink.dim;
  const every = Math.max(1, Math.ceil(50 / cell()));
  for (let i = 0; i + 1 < STOPS.length; i += every) if (left(i) < wide - 60) pen.fillText("it:" + (i + 1), left(i + 0.5), height - 6);
  pen.fillText("now", left(STOPS.length - 0.5) - 6, height - 6);
}

function drawLanes() {
  const view = $("lanes"), height = Math.max(1, view.clientHeight);
  const pen = prepare($("lane"), wide, Math.min(height, Math.max(rows.length * LANE, 1)));
  const from = Math.floor(view.scrollTop / LANE), shift = view.scrollTop - from * LANE;
  for (let i = from; i < rows.length && (i - from) * LANE < height + LANE; i++) drawLane(pen, rows[i], (i - from) * LANE - shift);
  drawCursor(pen, height);
}

function drawLane(pen, m, y) {
  const middle = y + LANE / 2;
  if (m === picked) { pen.fillStyle = ink.pick; pen.fillRect(0, y, wide, LANE); }
  pen.textAlign = "left"; pen.fillStyle = visible(m, cursor) ? ink.ink : ink.dim;
  pen.fillText(idOf(m) + (run.has(m) ? " +" + run.get(m) : ""), 6, middle);
  pen.fillText(GLYPHS[M.kind[m]], 66, middle);
  pen.textAlign = "right";
  pen.fillText(number(M.tokens[m]), GUTTER - 8, middle);
  for (let life = livesAt[m]; life < livesAt[m + 1]; life++) drawLife(pen, m, life, middle);
  pen.fillStyle = ink.warn;
  for (let row = refusedAt[m]; row < refusedAt[m + 1]; row++) {
    const a = left(below(STOPS, REFUSED.first[row])), b = left(below(STOPS, REFUSED.last[row]) + 1);
    pen.fillRect(a, middle + 5, Math.max(2, b - a), 2);
  }
}

function drawLife(pen, m, life, middle) {
  const end = LIVES.left[life];
  const a = left(below(STOPS, LIVES.entered[life])), b = end ? left(below(STOPS, end)) : left(STOPS.length);
  const width = Math.max(2, b - a);
  pen.fillStyle = ink.kinds[M.kind[m]];
  pen.fillRect(a, middle - 4, width, 8);
  if (REDACTED.has(M.seq[m])) { pen.fillStyle = ink.hatch; pen.fillRect(a, middle - 4, width, 8); }
  if (!end) return;
  const reason = LIVES.reason[life];
  const glyph = reason === SUMMARIZED || reason === OBSERVED ? "\u03a3" : reason === REPLACED || reason === SUPERSEDED ? "~" : "\u00d7";
  pen.fillStyle = ink.ink; pen.textAlign = "left";
  pen.fillText(glyph, a + width + 2, middle);
  if (!LIVES.stand_in[life]) return;
  pen.strokeStyle = ink.dim; pen.setLineDash([1, 3]);
  pen.beginPath(); pen.moveTo(a + width + 12, middle + 0.5);
  const back = life + 1 < livesAt[m + 1] ? left(below(STOPS, LIVES.entered[life + 1])) : left(STOPS.length);
  if (back > a + width + 12) { pen.lineTo(back, middle + 0.5); pen.stroke(); }
  pen.setLineDash([]);
}

function resize() { wide = $("lanes").clientWidth; chart = null; lanes(); drawChart(); drawLanes(); windowList.draw(); changedList.draw(); }

// ---- the address says where one is

let told = 0;
function remember() {
  clearTimeout(told);
  told = setTimeout(() => {
    const m = picked < 0 ? "" : "&m=" + idOf(picked);
    const from = other < 0 ? "" : "&from=" + moment(other);
    history.replaceState(null, "", "#at=" + moment(cursor) + from + m);
  }, 400);
}

function recall() {
  const where = new URLSearchParams(location.hash.slice(1));
  const m = /^m(\d+)$/.exec(where.get("m") || "");
  if (m) picked = indexOf(Number(m[1]));
  const seqOf = (text) => {
    const at = /^(it|s):(\d+)$/.exec(text || "");
    if (!at) return -1;
    const n = Number(at[2]);
    return at[1] === "s" ? Math.min(n, HEAD) : CALLS[n - 1] === undefined ? HEAD : CALLS[n - 1];
  };
  const from = seqOf(where.get("from")), at = seqOf(where.get("at"));
  if ((from < 0) !== (other < 0)) compare();
  if (from >= 0) { other = from; $("compare").textContent = "from " + moment(other); }
  return at < 0 ? HEAD : at;
}

// ---- hands

function keys(event) {
  const typing = event.target === $("find");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing) { if (event.key === "Escape") { $("find").value = ""; find(""); $("find").blur(); } return; }
  if (event.target === $("filter") && event.key !== "Escape") return;
  const lane = (by) => { const at = rows.indexOf(picked); if (rows.length) pick(rows[Math.min(rows.length - 1, Math.max(0, at + by))]); };
  const acts = {
    ArrowLeft: () => (event.shiftKey ? moveTo(cursor - 1) : step(-1)),
    ArrowRight: () => (event.shiftKey ? moveTo(cursor + 1) : step(1)),
    Home: () => moveTo(CALLS.length ? CALLS[0] : 0),
    End: () => moveTo(HEAD),
    j: () => lane(1), k: () => lane(-1),
    r: () => choose(filter === "refused" ? "all" : "refused"),
    d: compare,
    "/": () => $("find").focus(), "?": help,
  };
  if (!acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
}

function choose(value) { filter = value; $("filter").value = value; lanes(); $("lanes").scrollTop = 0; drawLanes(); }
function help() { const shown = $("keys").hidden; $("keys").hidden = !shown; $("help").setAttribute("aria-expanded", String(shown)); resize(); }

function begin() {
  document.title = show(D.conversation) + " - ctxlog";
  $("name").textContent = show(D.conversation);
  $("facts").textContent = [things(COUNT, "message"), things(CALLS.length, "call"), number(HEAD + 1) + " entries",
    D.head ? "head s:" + HEAD + " " + D.head.hash.slice(0, 8) : "empty"].join("   ");
  $("note").textContent = "Tokens by " + show(D.method) + ", without request settings." + (D.note ? " " + show(D.note) : "");
  D.kinds.forEach((kind, i) => {
    const item = make("span"), colour = make("i");
    colour.style.background = "var(--k" + i + ")";
    item.append(colour, GLYPHS[i] + " " + kind);
    $("legend").append(item);
  });
  $("slider").max = CALLS.length;
  colours();
  resize();
  moveTo(recall());
  if (picked >= 0) pick(picked);
  $("slider").addEventListener("input", () => { const i = Number($("slider").value); moveTo(i < CALLS.length ? CALLS[i] : HEAD); });
  $("back").addEventListener("click", () => step(-1));
  $("on").addEventListener("click", () => step(1));
  $("filter").addEventListener("change", () => choose($("filter").value));
  $("compare").addEventListener("click", compare);
  $("help").addEventListener("click", help);
  let asked = 0;
  $("find").addEventListener("input", () => { clearTimeout(asked); asked = setTimeout(() => find($("find").value), 150); });
  $("lanes").addEventListener("scroll", drawLanes);
  $("lane").addEventListener("click", (event) => {
    const row = Math.floor(($("lanes").scrollTop + event.clientY - $("lanes").getBoundingClientRect().top) / LANE);
    if (rows[row] !== undefined) pick(rows[row]);
  });
  $("chart").addEventListener("click", (event) => {
    const stop = Math.floor((event.clientX - GUTTER) / cell());
    if (stop >= 0) moveTo(stop < CALLS.length ? CALLS[stop] : HEAD);
  });
  document.addEventListener("keydown", keys);
  document.addEventListener("DOMContentLoaded", explain);
  window.addEventListener("resize", resize);
  window.addEventListener("hashchange", () => { moveTo(recall()); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours(); chart = null; drawChart(); drawLanes(); });
}

begin();
})();
