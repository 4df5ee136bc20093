
// Racks, machines and services as a treegrid: rows are made when they are opened and kept; arrows walk and open.

const opened = new Set();
const rows = new Map();
const body = document.querySelector("#tree tbody");
let focused = null;

function makeRow(place) {
  const name = el("td", { role: "gridcell" });
  const row = el("tr", { role: "row", "aria-level": place.level, tabindex: -1, "data-key": place.key });
  if (place.level < 3) name.append(el("button", { class: "twist", tabindex: -1, "aria-hidden": "true" }, "▸"));
  const [label, badge] = [el("span"), el("span", { class: "badge", hidden: true })];
  label.append(place.name);
  name.append(label, badge);
  const [fill, guarantee, limit] = [el("i"), el("b", { hidden: true }), el("b", { class: "limit", hidden: true })];
  const bar = el("div", { class: "bar", "aria-hidden": "true" }, fill, guarantee, limit);
  const numbers = [0, 1, 2].map(() => el("td", { role: "gridcell", class: "number" }));
  const by = el("td", { role: "gridcell", class: "by" });
  row.append(name, el("td", { role: "gridcell" }, bar), ...numbers, by);
  numbers[2].classList.toggle("whole", place.level < 3);
  return { place, row, badge, bar, fill, guarantee, limit, numbers, by };
}

/** A mark at a part of a bar; hidden without one. */
function mark(element, part) {
  element.hidden = part === null || part > 1;
  if (!element.hidden) element.style.left = `${Math.min(99, Math.max(0.6, part * 100))}%`;
}

function fillRow(entry) {
  const { place } = entry;
  const { usage, guarantee, limit, by, limited } = totals(place);
  const capacity = place.capacity?.[chosen.direction] ?? null;
  const part = (value) => (value === null || !capacity ? null : value / capacity);
  entry.fill.style.width = `${Math.min(100, (part(usage) ?? 0) * 100)}%`;
  mark(entry.guarantee, part(guarantee));
  mark(entry.limit, part(limit));
  entry.bar.classList.toggle("limited", limited && place.level === 3);
  setText(entry.numbers[0], rate(usage));
  setText(entry.numbers[1], guarantee === null ? "" : rate(guarantee));
  setText(entry.numbers[2], place.level < 3 ? `of ${rate(capacity)}` : limit === null ? "" : rate(limit));
  setText(entry.by, by);
  entry.by.classList.toggle("limited", limited && place.level === 3);
  const plain = () => ({ text: "", bad: false, away: place.level === 3 && state(place.above).away });
  const shown = place.level === 2 ? state(place) : plain();
  setText(entry.badge, shown.text);
  entry.badge.hidden = shown.text === "";
  entry.badge.classList.toggle("bad", shown.bad);
  entry.badge.title = shown.why ?? "";
  entry.row.classList.toggle("away", shown.away);
  if (place.level < 3) set(entry.row, "aria-expanded", isOpen(place));
  set(entry.row, "aria-selected", chosen.place === place);
}

/** A filter opens its matches. */
function isOpen(place) {
  return opened.has(place.key) || chosen.filter.trim() !== "";
}

/** The places that are shown, in order. */
function visible() {
  const shown = [];
  for (const rack of net.racks.filter(matches)) {
    shown.push(rack);
    if (!isOpen(rack)) continue;
    for (const machine of rack.machines.filter(matches)) {
      shown.push(machine);
      if (isOpen(machine)) shown.push(...machine.services.filter(matches));
    }
  }
  return shown;
}

function drawTree() {
  const shown = visible();
  let after = null;
  const kept = new Set();
  for (const place of shown) {
    if (!rows.has(place.key)) rows.set(place.key, makeRow(place));
    const entry = rows.get(place.key);
    fillRow(entry);
    kept.add(entry.row);
    const next = after === null ? body.firstChild : after.nextSibling;
    if (next !== entry.row) body.insertBefore(entry.row, next);
    after = entry.row;
  }
  for (const row of [...body.children]) if (!kept.has(row)) row.remove();
  if (!shown.includes(focused)) focus(shown[0] ?? null, false);
}

function focus(place, really = true) {
  if (focused && rows.has(focused.key)) rows.get(focused.key).row.tabIndex = -1;
  focused = place;
  if (!place) return;
  const { row } = rows.get(place.key);
  row.tabIndex = 0;
  if (really) row.focus();
}

function open(place, is) {
  if (place.level === 3) return;
  if (is) opened.add(place.key);
  else opened.delete(place.key);
  drawTree();
}

body.addEventListener("click", (event) => {
  const place = net.places.get(event.target.closest("tr")?.dataset.key);
  if (!place) return;
  if (event.target.closest(".twist")) open(place, !isOpen(place));
  else if (chosen.place === place) open(place, !isOpen(place));
  focus(place);
  choose(place);
});

body.addEventListener("keydown", (event) => {
  if (!focused || event.ctrlKey || event.metaKey || event.altKey) return;
  const shown = visible();
  const at = shown.indexOf(focused);
  const go = (to) => focus(shown[Math.max(0, Math.min(shown.length - 1, to))]);
  const actions = {
    ArrowDown: () => go(at + 1),
    ArrowUp: () => go(at - 1),
    Home: () => go(0),
    End: () => go(shown.length - 1),
    ArrowRight: () => (isOpen(focused) || focused.level === 3 ? go(at + 1) : open(focused, true)),
    ArrowLeft: () => (opened.has(focused.key) ? open(focused, false) : focused.level > 1 && focus(focused.above)),
    Enter: () => choose(focused),
    " ": () => choose(focused),
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
});
