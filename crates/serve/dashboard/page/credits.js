
// Credits: the ports of switches that grant them, the flows that these hold, and the flows of the chosen machine.

/** The most flows of a machine that are shown. */
const FLOWS = 50;
const micros = (us) => about(us / 1e6);

/** A size in three digits: 37.5 kB. */
function bytes(value) {
  const units = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
  const [size, unit] = units.find(([size]) => value >= size * 0.9995) ?? [1, "B"];
  return `${+(value / size).toPrecision(3)} ${unit}`;
}

/** Facts of a machine's own port, the first of its flows' paths. */
function creditFacts(add, credits, level) {
  const { period_us, longest_us, flows_sent, flows_received } = credits;
  add("credits of", rate(credits.rate_bps));
  add("flows with credits", `${flows_sent.toLocaleString("en")} sent, ${flows_received.toLocaleString("en")} received`);
  add("period", longest_us > period_us ? `${micros(period_us)}, longest ${micros(longest_us)}` : micros(period_us));
  add("credits for a weight of 1", rate(level));
  add("credits outstanding", `${bytes(credits.outstanding_bytes)} of at most ${bytes(credits.budget_bytes)}`);
  add("queued with credits", bytes(credits.queued_bytes));
  add("credits granted", bytes(credits.granted_bytes));
  add("credits used", bytes(credits.sent_bytes));
  add("credits expired", bytes(credits.expired_bytes));
  if (credits.overspent_bytes) add("sent beyond credits", bytes(credits.overspent_bytes));
  const refused = Object.entries(credits)
    .filter(([key, value]) => /^(messages|allocations|returns)_/.test(key) && value > 0)
    .map(([key, value]) => `${value.toLocaleString("en")} ${key.replaceAll("_", " ")}`);
  add("credits not accepted", refused.join(", "));
  if (!credits.prompt) add("thread of credits", "not a real-time one: it may be late by more than a period");
}

/** `r1 m2` of the network, if a forwarder's status names it. */
function heldText({ held_by, held_at }) {
  return held_at ? `${held_by}: ${held_at}` : held_by || "–";
}

const isHeld = (flow) => !["", "demand"].includes(flow.held_by);

function hasWords(text) {
  return chosen.filter.toLowerCase().split(/\s+/).every((word) => text.toLowerCase().includes(word));
}

/** A row of texts; the cells at `numbers` are numbers, and the last one is what limits the flow. */
function creditRow(cells, numbers, isLimited) {
  const kind = (at) => (numbers.includes(at) ? "number" : at === cells.length - 1 ? "by" : null);
  const others = cells.slice(1).map((text, at) => el("td", { class: kind(at + 1) }, text));
  if (isLimited) others.at(-1).classList.add("limited");
  return el("tr", {}, el("th", { scope: "row" }, cells[0]), ...others);
}

/** The flows with credits that a machine sends; those of the chosen service alone, if one is chosen. */
function drawFlows(place, credits) {
  const all = place.level > 1 && chosen.direction === "tx" ? credits?.flows ?? [] : [];
  const flows = all.filter((flow) => place.level === 2 || flow.service === place.service);
  byId("flows").hidden = flows.length === 0;
  const row = (flow) => {
    const cells = [flow.service, flow.to, String(flow.weight), rate(flow.share), rate(flow.demand), heldText(flow)];
    return creditRow(cells, [2, 3, 4], isHeld(flow));
  };
  byId("flows").querySelector("tbody").replaceChildren(...flows.slice(0, FLOWS).map(row));
  const rest = flows.length - FLOWS;
  setText(byId("flows-note"), rest > 0 ? `and ${count(rest, "flow")} of smaller shares` : "");
}

/** What prevents a port from granting as it should. */
function portState(port) {
  if (port.lost) return { text: `lost for ${about(port.lost.for_s)}`, why: port.lost.why };
  if (port.trouble) return { text: "not in force", why: port.trouble };
  if (!port.same_policy) return { text: "another policy", why: "" };
  if (port.closed) return { text: "grants nothing yet", why: "it has started without the state of its grants" };
  if (!port.lossless) return { text: "may lose packets", why: "data without credits is not dropped" };
  return { text: "", why: "" };
}

function portRow(port) {
  const { text, why } = portState(port);
  const badge = text ? el("span", { class: "badge bad", title: why }, text) : "";
  const outstanding = `${bytes(port.outstanding)} of ${bytes(port.budget)}`;
  const values = [
    rate(port.rate), port.flows.toLocaleString("en"), micros(port.period_us), rate(port.level), outstanding,
    bytes(port.queued), bytes(port.granted), bytes(port.expired), bytes(port.late),
    port.dropped_packets.toLocaleString("en"),
  ];
  const name = el("th", { scope: "row", title: port.interface }, port.name, badge);
  const cells = values.map((value) => el("td", { class: "number" }, value));
  return el("tr", { class: port.lost ? "away" : null }, name, ...cells);
}

/** The ports of switches that grant credits, and the flows that they limit. */
function drawCredits() {
  const credits = now?.credits;
  const isShown = Boolean(credits) && (credits.ports.length > 0 || credits.silent.length > 0);
  byId("credits").hidden = !isShown;
  if (!isShown) return;
  const words = (port) => [port.name, port.interface, portState(port).text].join(" ");
  const ports = credits.ports.filter((port) => hasWords(words(port)));
  byId("credit-ports").replaceChildren(...ports.map(portRow));
  const ofFlow = (flow) => [flow.port, flow.service, flow.from, flow.to];
  const held = credits.held.filter((flow) => hasWords(ofFlow(flow).join(" ")));
  byId("held").hidden = credits.held_count === 0;
  const row = (flow) => creditRow(
    [...ofFlow(flow), String(flow.weight), rate(flow.share), rate(flow.demand)], [4, 5, 6], false,
  );
  byId("held").querySelector("tbody").replaceChildren(...held.map(row));
  const part = (shown, all, noun) => (shown < all ? `${shown} of ${count(all, noun)}` : "");
  const notes = [
    part(ports.length, credits.ports_count, "port"), part(held.length, credits.held_count, "limited flow"),
    ...credits.silent.map((one) => `switch ${one.name} has no status: ${one.why}`),
  ];
  setText(byId("credits-note"), notes.filter(Boolean).join(" · "));
}
