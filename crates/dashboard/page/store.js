
// What the dashboard said, and what is chosen.

const chosen = { direction: "tx", span: 300, filter: "", place: null };

/** The network as a tree of places: racks, machines, services. A place is { level, key, name, ... }. */
const net = { racks: [], machines: [], services: [], places: new Map(), policy: "" };
let now = null;

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error ?? `answered ${answer.status}`);
  return body;
}

async function loadNetwork() {
  const said = await ask("/api/network");
  net.policy = said.policy;
  net.services = said.services;
  for (const rack of said.racks) {
    const above = { level: 1, key: `r/${rack.name}`, name: rack.name, rack: rack.name, capacity: rack.capacity, machines: [] };
    for (const machine of rack.machines) {
      const key = `m/${machine.name}`;
      const below = { level: 2, key, name: machine.name, rack: rack.name, machine: machine.name, capacity: machine.capacity, index: net.machines.length, above };
      below.services = said.services.map((service, index) => ({
        level: 3, key: `${key}/${service.name}`, name: service.name, rack: rack.name, machine: machine.name, service: service.name, index, above: below, capacity: machine.capacity,
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

/** One service on one machine, as a list of numbers; null where nothing is known. */
function instance(place) {
  return now?.machines[place.above.index]?.services?.[place.index] ?? null;
}
function word(number, words = now?.words) {
  return number > 0 ? (words?.[number - 1] ?? "?") : "–";
}
const isHeld = (row) => row !== null && row[BY] > 0 && word(row[BY]) !== "demand";

/** What a place uses, is guaranteed and is held at. A machine's and a rack's are sums; they have no limit. */
function totals(place) {
  if (place.level === 3) {
    const row = instance(place);
    if (row === null) return { usage: null, guarantee: null, limit: null, by: "–", held: false };
    return { usage: row[USAGE], guarantee: row[GUARANTEE] || null, limit: row[LIMIT], by: word(row[BY]), held: isHeld(row) };
  }
  let [usage, guarantee, held] = [null, 0, 0];
  // What a lost machine said last is shown in its own row, and counts nowhere.
  for (const machine of place.level === 2 ? [place] : place.machines.filter((one) => !state(one).away)) {
    for (const row of now?.machines[machine.index]?.services ?? []) {
      if (row === null) continue;
      if (row[USAGE] !== null) usage = (usage ?? 0) + row[USAGE];
      guarantee += row[GUARANTEE] ?? 0;
      held += isHeld(row) ? 1 : 0;
    }
  }
  return { usage, guarantee: place.level === 2 ? guarantee || null : null, limit: null, by: held && !(place.level === 2 && state(place).away) ? `${held} limited` : "", held: held > 0 };
}

/** What is never heard is not lost: it may be starting, like the dashboard itself. */
function lostText({ lost, services }) {
  const since = `for ${about(lost.for_s)}`;
  if (services) return `lost ${since}`;
  return lost.for_s < 2 ? "no answer yet" : `no answer ${since}`;
}

/** How a machine is. */
function state(place) {
  const machine = now?.machines[place.index];
  if (!machine?.asked) return { text: "not asked yet", bad: false, away: true };
  if (machine.lost) return { text: lostText(machine), why: machine.lost.why, bad: true, away: true };
  if (machine.same_policy === false) return { text: "another policy", bad: true, away: false };
  if (machine.interface_absent) return { text: "interface gone", bad: true, away: false };
  if (machine.not_enforced) return { text: "not enforced", why: machine.not_enforced, bad: true, away: false };
  if (machine.mode === "static") return { text: "static policy", bad: true, away: false };
  if (machine.peers_alive < machine.peers) return { text: `hears ${machine.peers_alive} of ${machine.peers}`, bad: true, away: false };
  return { text: "", bad: false, away: false };
}

/** Whether a place or something below it has all words of the filter. */
function matches(place) {
  const words = chosen.filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  if (place.level === 1) return place.machines.some(matches);
  if (place.level === 2) return place.services.some(matches);
  const row = instance(place);
  const text = [place.rack, place.machine, place.service, row ? word(row[BY]) : ""].join("\n").toLowerCase();
  return words.every((one) => text.includes(one));
}
