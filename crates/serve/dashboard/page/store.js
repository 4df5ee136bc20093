
// The data of the dashboard, and the choices.

const chosen = { direction: "tx", span: 300, filter: "", place: null };

/** The network as a tree of places: racks, machines, services. A place is { level, key, name, ... }. */
const net = { racks: [], machines: [], services: [], places: new Map(), policy: "" };
let now = null;

async function fetchJson(path) {
  const response = await fetch(path, { cache: "no-store" });
  const body = await response.json();
  if (!response.ok) throw new Error(body.error ?? `status ${response.status}`);
  return body;
}

async function loadNetwork() {
  const network = await fetchJson("/api/network");
  net.policy = network.policy;
  net.services = network.services;
  for (const { name: rack, capacity, machines } of network.racks) {
    const above = { level: 1, key: `r/${rack}`, name: rack, rack, capacity, machines: [] };
    for (const { name: machine, capacity } of machines) {
      const key = `m/${machine}`;
      const below = { level: 2, key, name: machine, rack, machine, capacity, index: net.machines.length, above };
      below.services = network.services.map(({ name: service }, index) => ({
        level: 3, key: `${key}/${service}`, name: service, rack, machine, service, index, above: below, capacity,
      }));
      above.machines.push(below);
      net.machines.push(below);
    }
    net.racks.push(above);
  }
  for (const rack of net.racks) {
    net.places.set(rack.key, rack);
    for (const machine of rack.machines) {
      net.places.set(machine.key, machine);
      for (const service of machine.services) net.places.set(service.key, service);
    }
  }
}

const [USAGE, GUARANTEE, LIMIT, DEMAND, SHARE, BY] = [0, 1, 2, 3, 4, 5];

/** One service on one machine, as a list of numbers; null if unknown. */
function instance(place) {
  return now?.machines[place.above.index]?.services?.[place.index] ?? null;
}
/** The text of a constraint's number. */
function constraint(number, constraints = now?.constraints) {
  return number > 0 ? (constraints?.[number - 1] ?? "?") : "–";
}
const isLimited = (row) => row !== null && row[BY] > 0 && constraint(row[BY]) !== "demand";

/** Usage, guarantee and limit of a place. Those of a machine and a rack are sums; they have no limit. */
function totals(place) {
  if (place.level === 3) {
    const row = instance(place);
    if (row === null) return { usage: null, guarantee: null, limit: null, by: "–", limited: false };
    const [by, limited] = [constraint(row[BY]), isLimited(row)];
    return { usage: row[USAGE], guarantee: row[GUARANTEE] || null, limit: row[LIMIT], by, limited };
  }
  let [usage, guarantee, limited] = [null, 0, 0];
  // The last status of a lost machine is shown in its own row, and counts nowhere else.
  for (const machine of place.level === 2 ? [place] : place.machines.filter((one) => !state(one).away)) {
    for (const row of now?.machines[machine.index]?.services ?? []) {
      if (row === null) continue;
      if (row[USAGE] !== null) usage = (usage ?? 0) + row[USAGE];
      guarantee += row[GUARANTEE] ?? 0;
      limited += isLimited(row) ? 1 : 0;
    }
  }
  const isAway = place.level === 2 && state(place).away;
  const by = limited && !isAway ? `${limited} limited` : "";
  return { usage, guarantee: place.level === 2 ? guarantee || null : null, limit: null, by, limited: limited > 0 };
}

/** A machine without any status is not lost: it may be starting, like the dashboard itself. */
function lostText({ lost, services }) {
  const since = `for ${about(lost.for_s)}`;
  if (services) return `lost ${since}`;
  return lost.for_s < 2 ? "no status yet" : `no status ${since}`;
}

/** The state of a machine. */
function state(place) {
  const machine = now?.machines[place.index];
  if (!machine?.polled) return { text: "not polled yet", bad: false, away: true };
  if (machine.lost) return { text: lostText(machine), why: machine.lost.why, bad: true, away: true };
  if (machine.same_policy === false) return { text: "another policy", bad: true, away: false };
  if (machine.interface_absent) return { text: "interface gone", bad: true, away: false };
  if (machine.not_enforced) return { text: "not enforced", why: machine.not_enforced, bad: true, away: false };
  if (machine.mode === "static") return { text: "static policy", bad: true, away: false };
  if (machine.peers_alive < machine.peers) {
    return { text: `${machine.peers_alive} of ${machine.peers} peers`, bad: true, away: false };
  }
  return { text: "", bad: false, away: false };
}

/** Whether a place or something below it has all words of the filter. */
function matches(place) {
  const words = chosen.filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  if (place.level === 1) return place.machines.some(matches);
  if (place.level === 2) return place.services.some(matches);
  const row = instance(place);
  const text = [place.rack, place.machine, place.service, row ? constraint(row[BY]) : ""].join("\n").toLowerCase();
  return words.every((one) => text.includes(one));
}
