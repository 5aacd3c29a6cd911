"use strict";
(() => {
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const BINS = 60, STEPS = 1000, SLOTS = 12, FEW = 4, NEAR = 6, COLUMNS = 240;

/* ---- problems, tables ---------------------------------------------------------- */

const picker = $("view");
if (picker) {
  const show = () => document.querySelectorAll(".view").forEach((part) => {
    // Over all problems there is a table, but no figure: those of the first stand in.
    const inFigures = part.closest("#figures") !== null;
    const wanted = inFigures && picker.value === "all" ? "0" : picker.value;
    part.hidden = part.dataset.view !== wanted;
  });
  picker.addEventListener("change", show);
  show();
}

document.querySelectorAll(".board").forEach((table) => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = (row) => {
        const cell = row.cells[column];
        if (!("v" in cell.dataset)) return cell.textContent;
        return cell.dataset.v === "" ? -Infinity : Number(cell.dataset.v);
      };
      const order = (a, b) => {
        const [x, y] = [value(a), value(b)];
        const by = typeof x === "string" ? x.localeCompare(y) : x < y ? -1 : x > y ? 1 : 0;
        return up ? by : -by;
      };
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
    });
  });
});

document.querySelectorAll("button.csv").forEach((button) => {
  button.addEventListener("click", () => {
    const table = button.parentElement.querySelector("table");
    const quote = (cell) => {
      let text = cell.dataset.v ?? cell.textContent;
      // A spreadsheet must not take a name for a formula.
      if (cell.dataset.v === undefined && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
      return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
    };
    const text = [...table.rows].map((r) => [...r.cells].map(quote).join(",")).join("\n");
    const link = document.createElement("a");
    const title = button.closest("figure").querySelector("h3").textContent;
    link.href = URL.createObjectURL(new Blob([text + "\n"], { type: "text/csv" }));
    link.download = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
});

/* ---- the explorer -------------------------------------------------------------- */

const data = JSON.parse($("data").textContent);
if (!data.cells.length) return;

const KINDS = { f8: Float64Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };
const arrays = [];
function array(i) {
  if (i === null) return null;
  if (!arrays[i]) {
    const { kind, data: text } = data.arrays[i];
    const bytes = atob(text);
    const out = new Uint8Array(bytes.length);
    for (let j = 0; j < bytes.length; j++) out[j] = bytes.charCodeAt(j);
    arrays[i] = new KINDS[kind](out.buffer);
  }
  return arrays[i];
}

const number = (v) => v === "inf" ? Infinity : v === "-inf" ? -Infinity : v === "" ? NaN : Number(v);
const write = (v) => Number.isFinite(v) ? String(v) : v > 0 ? "inf" : "-inf";
const brief = (v) => Number.isFinite(v) ? String(+v.toPrecision(5)).replace("-", "−") : v > 0 ? "∞" : "−∞";
const rate = (v) => Number.isNaN(v) ? "–" : v.toFixed(4);
const count = (v) => v.toLocaleString("en");
const ratio = (a, b) => b > 0 ? a / b : 0;

let now = null;         // the cell on show, prepared
let threshold = 0;
let alpha = null;       // null: the share of knowns
let range = [0, 1];

/* Samples in order of knownness, so that "accepted" is the first k of them. Counts
   follow k step by step: moving the threshold costs what it passes over, no more. */
function prepare(cell) {
  const known = array(cell.known), label = array(cell.label), predicted = array(cell.predicted);
  const n = known.length, C = cell.classes.length;
  const order = new Uint32Array(n);
  for (let i = 0; i < n; i++) order[i] = i;
  // inf − inf is NaN, which is falsy: equal scores keep their order
  order.sort((a, b) => known[b] - known[a] || a - b);
  const sorted = new Float64Array(n);
  for (let i = 0; i < n; i++) sorted[i] = known[order[i]];
  const support = new Int32Array(C + 1), errors = new Int32Array(C);
  // How many of the first i are known, right or unknown: for curves and histograms.
  const right = new Int32Array(n + 1), unknown = new Int32Array(n + 1);
  for (let i = 0; i < n; i++) {
    const j = order[i], t = label[j];
    support[t]++;
    if (t !== predicted[j]) { errors[predicted[j]]++; if (t < C) errors[t]++; }
    right[i + 1] = right[i] + (t === predicted[j]);
    unknown[i + 1] = unknown[i] + (t === C);
  }
  // A matrix of many classes shows those with most errors, of those that occur; the
  // rest is one row.
  const slot = new Int32Array(C + 1);
  let names;
  if (C <= SLOTS) {
    for (let c = 0; c <= C; c++) slot[c] = c;
    names = [...cell.classes, "unknown"];
  } else {
    const kept = [...errors.keys()]
      .sort((a, b) => !support[a] - !support[b] || errors[b] - errors[a] || a - b)
      .slice(0, FEW).sort((a, b) => a - b);
    slot.fill(kept.length);
    kept.forEach((c, i) => { slot[c] = i; });
    slot[C] = kept.length + 1;
    names = [...kept.map((c) => cell.classes[c]), `${C - kept.length} other classes`, "unknown"];
  }
  const S = names.length;
  const total = new Int32Array(S);
  for (let c = 0; c <= C; c++) total[slot[c]] += support[c];
  const calibrated = cell.calibrated === null ? null : array(cell.calibrated);
  const nUnknown = support[C], nKnown = n - nUnknown;
  return {
    cell, known, label, predicted, order, sorted, n, C, support, right, unknown, slot,
    names, S, total, nKnown, nUnknown, calibrated, hindsight: array(cell.hindsight),
    group: array(cell.group), row: array(cell.row),
    use: cell.threshold === null ? null : number(cell.threshold),
    share: nKnown / n, k: 0, hits: new Int32Array(C), named: new Int32Array(C),
    nHits: 0, nUnknownIn: 0, matrix: new Int32Array(S * S),
  };
}

function accepted(cut) {   // how many samples have known >= cut
  let low = 0, high = now.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (now.sorted[middle] >= cut) low = middle + 1; else high = middle;
  }
  return low;
}

function moveTo(k) {
  const { order, label, predicted, C, slot, S, hits, named, matrix } = now;
  const step = k > now.k ? 1 : -1;
  for (let i = step > 0 ? now.k : now.k - 1; step > 0 ? i < k : i >= k; i += step) {
    const j = order[i], t = label[j], p = predicted[j];
    named[p] += step;
    if (t === p) { hits[p] += step; now.nHits += step; }
    if (t === C) now.nUnknownIn += step;
    matrix[slot[t] * S + slot[p]] += step;
  }
  now.k = k;
}

const weight = () => alpha === null ? now.share : alpha;

function measure() {
  const { C, hits, named, support, nKnown, nUnknown } = now;
  let precision = 0, recall = 0, classes = 0;
  for (let c = 0; c < C; c++) {
    precision += ratio(hits[c], named[c]);
    recall += ratio(hits[c], support[c]);
    if (support[c] > 0) classes++;
  }
  const ccr = now.nHits / nKnown, urr = (nUnknown - now.nUnknownIn) / nUnknown;
  const p = precision / C, r = recall / C, a = weight();
  return {
    ccr, urr, osa: a * ccr + (1 - a) * urr, f: ratio(2 * p * r, p + r),
    halfpoint: recall / classes, overall: (recall + urr) / (classes + 1),
  };
}

/* ---- drawing ------------------------------------------------------------------- */

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
function text(x, y, said, anchor) {
  const made = element("text", { x, y, "text-anchor": anchor });
  made.textContent = said;
  return made;
}

function reach() {
  // The middle of everything: one wild score must not squeeze the rest into a line.
  const { sorted, n } = now;
  let first = 0, last = n - 1;
  while (first < last && sorted[first] === Infinity) first++;
  while (last > first && sorted[last] === -Infinity) last--;
  const trim = last - first > 500 ? Math.floor((last - first) * 0.002) : 0;
  let high = sorted[first + trim], low = sorted[last - trim];
  if (Number.isFinite(now.use)) { high = Math.max(high, now.use); low = Math.min(low, now.use); }
  if (!(high > low) || !Number.isFinite(high - low)) { low = (Number.isFinite(low) ? low : 0) - 0.5; high = low + 1; }
  const room = (high - low) * 0.02;
  return [low - room, high + room];
}

function ticks(low, high) {   // round numbers
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((f) => f * power >= rough * 0.999) * power;
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) out.push(+(i * step).toPrecision(6));
  return out;
}

let plot = null;   // geometry of the drawing, and the parts that move
function frame() {
  const svg = $("x-plot");
  const width = Math.max(svg.clientWidth, 280), height = svg.clientHeight || 320;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const left = 34, right = width - 8, top = 6, middle = Math.round(height * 0.55), bottom = height - 24;
  const [low, high] = range;
  const x = (v) => left + Math.min(Math.max((v - low) / (high - low), 0), 1) * (right - left);
  // Histogram: known above the axis, unknown below, each side adding up to 1.
  const cuts = [];
  for (let b = 0; b <= BINS; b++) cuts.push(accepted(low + (high - low) * b / BINS));
  cuts[0] = now.n; cuts[BINS] = 0;
  const bars = [];
  let tallest = 0;
  for (let b = 0; b < BINS; b++) {
    const [from, to] = [cuts[b + 1], cuts[b]];
    const unknown = now.unknown[to] - now.unknown[from];
    const good = now.right[to] - now.right[from];
    const known = to - from - unknown;
    bars.push([good / now.nKnown, known / now.nKnown, unknown / now.nUnknown]);
    tallest = Math.max(tallest, known / now.nKnown, unknown / now.nUnknown);
  }
  const axis = top + (middle - top - 12) / 2 + 2, unit = (axis - top) / (tallest || 1);
  const paths = { w: "", k: "", u: "" };
  bars.forEach(([good, known, unknown], b) => {
    const a = (left + (right - left) * b / BINS + 0.5).toFixed(1), w = ((right - left) / BINS - 1).toFixed(1);
    const box = (y, h) => h > 0.05 ? `M${a} ${y.toFixed(1)}h${w}v${h.toFixed(1)}h-${w}z` : "";
    paths.k += box(axis - good * unit, good * unit);
    paths.w += box(axis - known * unit, (known - good) * unit);
    paths.u += box(axis + 1, unknown * unit);
  });
  for (const name of ["k", "w", "u"]) svg.append(element("path", { class: name, d: paths[name] }));
  svg.append(element("path", { class: "axis", d: `M${left} ${axis + .5}H${right}` }));
  // Rates at every threshold.
  const y = (v) => bottom - v * (bottom - middle - 8);
  for (const v of [0, 0.5, 1]) {
    svg.append(element("path", { class: "axis", d: `M${left} ${y(v)}H${right}` }), text(left - 6, y(v) + 4, String(v), "end"));
  }
  const lines = { lk: [], lu: [], lo: [] }, a = weight();
  for (let i = 0; i <= COLUMNS; i++) {
    const cut = low + (high - low) * i / COLUMNS, k = accepted(cut), at = x(cut).toFixed(1);
    const ccr = now.right[k] / now.nKnown, urr = 1 - now.unknown[k] / now.nUnknown;
    lines.lk.push(`${at} ${y(ccr).toFixed(1)}`);
    lines.lu.push(`${at} ${y(urr).toFixed(1)}`);
    lines.lo.push(`${at} ${y(a * ccr + (1 - a) * urr).toFixed(1)}`);
  }
  for (const [name, points] of Object.entries(lines)) {
    svg.append(element("path", { class: `line ${name}`, d: "M" + points.join("L") }));
  }
  for (const v of ticks(low, high)) {
    svg.append(text(x(v), height - 6, String(v).replace("-", "−"), "middle"));
  }
  const veil = element("rect", { class: "veil", x: left, y: 0, width: 0, height: bottom });
  svg.append(veil);
  if (now.use !== null && Number.isFinite(now.use)) {
    svg.append(element("path", { class: "use", d: `M${x(now.use)} ${top}V${bottom}` }));
  }
  const cut = element("path", { class: "cut" }), knob = element("circle", { class: "knob", r: 7 });
  svg.append(cut, knob);
  plot = { x, left, right, top, bottom, middle, veil, cut, knob };
}

function place() {
  const at = threshold === Infinity ? plot.right : threshold === -Infinity ? plot.left : plot.x(threshold);
  plot.veil.setAttribute("width", Math.max(at - plot.left, 0));
  plot.cut.setAttribute("d", `M${at} ${plot.top}V${plot.bottom}`);
  plot.knob.setAttribute("cx", at);
  plot.knob.setAttribute("cy", plot.middle);
}

let cells = [];
function layMatrix() {
  const head = document.createElement("tr"), body = $("x-matrix").tBodies[0];
  const add = (row, said, name) => {
    const made = document.createElement(name);
    made.textContent = said; made.title = said;
    row.append(made);
    return made;
  };
  add(head, "", "th").setAttribute("aria-label", "true class by row, decision by column");
  for (const name of now.names.slice(0, -1)) add(head, name, "th").scope = "col";
  add(head, "rejected", "th").scope = "col";
  $("x-matrix").tHead.replaceChildren(head);
  body.replaceChildren();
  cells = now.names.map((name) => {
    const row = document.createElement("tr");
    add(row, name, "th").scope = "row";
    const made = now.names.map(() => add(row, "", "td"));
    body.append(row);
    return made;
  });
}
function fillMatrix() {
  const { S, matrix, total, C } = now;
  const pool = C > SLOTS ? S - 2 : -1;
  for (let t = 0; t < S; t++) {
    let inside = 0;
    for (let p = 0; p < S - 1; p++) inside += matrix[t * S + p];
    for (let p = 0; p < S; p++) {
      const value = p < S - 1 ? matrix[t * S + p] : total[t] - inside;
      const share = ratio(value, total[t]), cell = cells[t][p];
      const said = value ? count(value) : "·";
      if (cell.textContent !== said) cell.textContent = said;
      const colour = t === pool && p === pool ? "--soft" : t === p ? "--known" : "--unknown";
      cell.style.background = value
        ? `color-mix(in srgb, var(${colour}) ${(6 + 62 * share).toFixed(0)}%, transparent)` : "";
    }
  }
}

function fillNear(id, from, step) {
  const { order, label, predicted, known, cell, C, group, row } = now;
  const body = $(id).tBodies[0];
  const titles = ["row", "true class", "predicted", ...(group ? ["group"] : []), "knownness"];
  const head = document.createElement("tr");
  titles.forEach((title, i) => {
    const th = document.createElement("th");
    th.textContent = title; th.scope = "col";
    if (i === 0 || i === titles.length - 1) th.className = "num";
    head.append(th);
  });
  $(id).tHead.replaceChildren(head);
  const rows = [];
  for (let i = from, m = 0; m < NEAR && i >= 0 && i < now.n; i += step, m++) {
    const j = order[i], t = label[j], isIn = step < 0;
    const isRight = isIn ? t === predicted[j] : t === C;
    const tr = document.createElement("tr");
    const values = [row ? row[j] : j, t === C ? "unknown" : cell.classes[t], cell.classes[predicted[j]],
      ...(group ? [cell.groups[group[j]]] : []), brief(known[j])];
    values.forEach((value, c) => {
      const td = document.createElement("td");
      td.textContent = value;
      const isNumber = c === 0 || c === values.length - 1;
      td.className = isNumber ? "num" : c === 1 && !isRight ? "name wrong" : "name";
      td.title = isNumber ? "" : value;
      tr.append(td);
    });
    rows.push(tr);
  }
  body.replaceChildren(...rows);
}

const NAMES = ["ccr", "urr", "osa", "f", "halfpoint", "overall"];
function atUse() {   // what the threshold in use reaches, for comparison
  NAMES.forEach((name) => { $(`x-${name}-use`).textContent = ""; });
  if (now.use === null) return;
  const k = now.k;
  moveTo(accepted(now.use));
  const found = measure();
  NAMES.forEach((name) => { $(`x-${name}-use`).textContent = "in use " + rate(found[name]); });
  moveTo(k);
}

let waiting = false;
function later() {   // many events, one drawing
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}
function draw() {
  moveTo(accepted(threshold));
  const found = measure();
  for (const name of NAMES) $(`x-${name}`).textContent = rate(found[name]);
  place();
  if (document.activeElement !== $("x-exact")) $("x-exact").value = write(threshold);
  const share = (threshold - range[0]) / (range[1] - range[0]);
  const at = Math.round(Math.min(Math.max(share, 0), 1) * STEPS);
  if (document.activeElement !== $("x-slider") || dragging) $("x-slider").value = at;
  $("x-slider").setAttribute("aria-valuetext", `${brief(threshold)}: CCR ${rate(found.ccr)}, URR ${rate(found.urr)}`);
  const a = weight();
  $("x-alpha").value = Math.round(a * 100);
  $("x-alpha-out").textContent = alpha === null ? `${a.toFixed(4)} (share)` : String(+a.toFixed(4));
  const knownIn = now.k - now.nUnknownIn;
  $("x-said").textContent = `${count(now.k)} of ${count(now.n)} samples accepted: ${count(knownIn)} known, ` +
    `${count(now.nUnknownIn)} unknown.`;
  fillMatrix();
  fillNear("x-in", now.k - 1, -1);
  fillNear("x-out", now.k, 1);
}

/* ---- what a person does -------------------------------------------------------- */

let dragging = false;
const mode = () => document.querySelector("input[name=x-mode]:checked").value;
function byHand(value) {
  if (Number.isNaN(value)) return;
  $("x-hand").checked = true;
  threshold = value;
  later();
}
function follow() {
  const table = mode() === "calibrated" ? now.calibrated : mode() === "hindsight" ? now.hindsight : null;
  if (!table) return;
  alpha = Math.round(weight() * 100) / 100;   // the tables go in hundredths
  threshold = table[Math.round(alpha * 100)];
}
function choose(i) {
  now = prepare(data.cells[i]);
  const { cell } = now;
  range = reach();
  $("x-unit").textContent = cell.unit;
  $("x-calibrated").disabled = now.calibrated === null;
  $("x-use").disabled = false;
  $("x-use").textContent = now.use === null ? "Best threshold (oracle)" : "Threshold in use";
  if (now.calibrated === null && $("x-calibrated").checked) $("x-hand").checked = true;
  if (mode() === "hand") { alpha = cell.alpha; threshold = start(); } else follow();
  layMatrix();
  frame();
  atUse();
  const note = [];
  if (cell.shown < cell.n) note.push(`This file has every ${Math.round(cell.n / cell.shown)}th of ${count(cell.n)} samples: the numbers are estimates.`);
  if (now.use === null) {
    note.push((now.cell.by_rule
      ? "The study rejected samples by the rule the method was published with, which the line does not show"
      : "No threshold was given for these scores")
      + ": the line starts at the best threshold for these samples (oracle).");
  }
  $("x-note").textContent = [basic, ...note].filter(Boolean).join(" ");
  draw();
}
function start() {
  return now.use !== null ? now.use : number(now.cell.best);
}

const basic = $("x-note").textContent;
$("x-cell").addEventListener("change", (event) => choose(Number(event.target.value)));
$("x-slider").addEventListener("input", (event) => {
  const at = Number(event.target.value);
  // The ends are all and nothing, wherever the scores end.
  byHand(at === 0 ? -Infinity : at === STEPS ? Infinity : range[0] + (range[1] - range[0]) * at / STEPS);
});
$("x-exact").addEventListener("input", (event) => byHand(number(event.target.value.trim().replace("−", "-"))));
$("x-exact").addEventListener("blur", () => { $("x-exact").value = write(threshold); });
$("x-less").addEventListener("click", () => { if (now.k < now.n) byHand(now.sorted[now.k]); });
$("x-more").addEventListener("click", () => {
  let k = now.k - 1;   // samples with equal scores leave together
  while (k > 0 && now.sorted[k - 1] === now.sorted[k]) k--;
  byHand(k > 0 ? now.sorted[k - 1] : Infinity);
});
$("x-use").addEventListener("click", () => { $("x-hand").checked = true; alpha = now.cell.alpha; threshold = start(); frame(); atUse(); later(); });
$("x-share").addEventListener("click", () => { alpha = null; follow(); frame(); atUse(); later(); });
$("x-alpha").addEventListener("input", (event) => {
  alpha = Number(event.target.value) / 100;
  follow();
  frame();
  atUse();
  later();
});
document.querySelectorAll("input[name=x-mode]").forEach((radio) => radio.addEventListener("change", () => {
  follow(); frame(); atUse(); later();
}));
const svg = $("x-plot");
const drag = (event) => {
  const box = svg.getBoundingClientRect();
  const at = (event.clientX - box.left - plot.left) / (plot.right - plot.left);
  byHand(range[0] + (range[1] - range[0]) * Math.min(Math.max(at, 0), 1));
};
svg.addEventListener("pointerdown", (event) => { dragging = true; svg.setPointerCapture(event.pointerId); drag(event); });
svg.addEventListener("pointermove", (event) => { if (dragging) drag(event); });
for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, () => { dragging = false; });
let width = 0;
new ResizeObserver(() => {
  if (svg.clientWidth === width) return;
  width = svg.clientWidth;
  frame();
  later();
}).observe(svg);
choose(0);
})();
