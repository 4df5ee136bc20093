
// Who is limited, by what: the constraints that hold most first.

/** As many as are shown of one constraint. */
const MEMBERS = 24;

function drawLimited() {
  if (!now) return;
  const causes = new Map();
  for (const machine of net.machines) {
    if (state(machine).away) continue;
    for (const place of machine.services) {
      const row = instance(place);
      if (!isHeld(row) || !matches(place)) continue;
      const by = word(row[BY]);
      if (!causes.has(by)) causes.set(by, []);
      causes.get(by).push({ place, row });
    }
  }
  for (const broker of now.fabric) {
    for (const of of broker.limits ?? []) {
      const by = `fabric broker ${broker.name}`;
      if (!causes.has(by)) causes.set(by, []);
      causes.get(by).push({ place: net.places.get(`r/${of.rack}`), row: null, text: `${of.service} in ${of.rack} ${rate(of.limit)}` });
    }
  }
  const box = byId("limited");
  const leftOut = now.fabric.filter((broker) => broker.limits_left_out > 0).map((broker) =>
    el("p", { class: "note" }, `Fabric broker ${broker.name} has ${count(broker.limits_left_out, "more limit")}, sent or received, which its status leaves out.`));
  if (causes.size === 0) {
    box.replaceChildren(leftOut.length ? "" : el("p", { class: "note" }, "Nobody: all get what they ask for."), ...leftOut);
    return;
  }
  const order = [...causes].sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1));
  // What is under a finger or has the focus stays.
  const had = document.activeElement?.dataset?.member;
  box.replaceChildren(...order.flatMap(([by, members]) => {
    const parts = members.slice(0, MEMBERS).map(({ place, row, text }) => {
      const button = el("button", { "data-member": `${by} ${place?.key}`, "data-key": place?.key }, text ?? `${place.service} on ${place.machine} ${rate(row[USAGE])} / ${rate(row[LIMIT])}`);
      return el("li", {}, button);
    });
    if (members.length > MEMBERS) parts.push(el("li", { class: "more" }, `and ${members.length - MEMBERS} more`));
    const heading = el("p", { class: "cause" }, el("b", {}, by), el("span", {}, ` holds ${members.length}`));
    return [heading, el("ul", { class: "members" }, ...parts)];
  }), ...leftOut);
  if (had) [...box.querySelectorAll("button")].find((button) => button.dataset.member === had)?.focus();
}

byId("limited").addEventListener("click", (event) => {
  const place = net.places.get(event.target.closest("button")?.dataset.key);
  if (!place) return;
  for (let above = place.above; above; above = above.above) opened.add(above.key);
  choose(place);
  rows.get(place.key)?.row.scrollIntoView({ block: "nearest" });
  focus(place, false);
});
