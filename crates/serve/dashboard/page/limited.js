
// The limited services by constraint: the constraint of most services first.

/** The most services that are shown of one constraint. */
const MEMBERS = 24;

function drawLimited() {
  if (!now) return;
  const causes = new Map();
  for (const machine of net.machines) {
    if (state(machine).away) continue;
    for (const place of machine.services) {
      const row = instance(place);
      if (!isLimited(row) || !matches(place)) continue;
      const by = constraint(row[BY]);
      if (!causes.has(by)) causes.set(by, []);
      causes.get(by).push({ place, row });
    }
  }
  for (const broker of now.fabric) {
    for (const of of broker.limits ?? []) {
      const by = `fabric broker ${broker.name}`;
      if (!causes.has(by)) causes.set(by, []);
      const text = `${of.service} in ${of.rack} ${rate(of.limit)}`;
      causes.get(by).push({ place: net.places.get(`r/${of.rack}`), row: null, text });
    }
  }
  const box = byId("limited");
  const leftOut = now.fabric.filter((broker) => broker.limits_left_out > 0).map((broker) => {
    const more = count(broker.limits_left_out, "more limit");
    const text = `Fabric broker ${broker.name} has ${more}, sent or received, which its status leaves out.`;
    return el("p", { class: "note" }, text);
  });
  if (causes.size === 0) {
    const none = el("p", { class: "note" }, "No service is limited.");
    box.replaceChildren(leftOut.length ? "" : none, ...leftOut);
    return;
  }
  const order = [...causes].sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1));
  // The focused button keeps the focus.
  const had = document.activeElement?.dataset?.member;
  box.replaceChildren(...order.flatMap(([by, members]) => {
    const parts = members.slice(0, MEMBERS).map(({ place, row, text }) => {
      const attributes = { "data-member": `${by} ${place?.key}`, "data-key": place?.key };
      const rates = () => `${rate(row[USAGE])} / ${rate(row[LIMIT])}`;
      const label = text ?? `${place.service} on ${place.machine} ${rates()}`;
      return el("li", {}, el("button", attributes, label));
    });
    if (members.length > MEMBERS) parts.push(el("li", { class: "more" }, `and ${members.length - MEMBERS} more`));
    const heading = el("p", { class: "cause" }, el("b", {}, by), el("span", {}, ` limits ${members.length}`));
    return [heading, el("ul", { class: "members" }, ...parts)];
  }), ...leftOut);
  const buttons = [...box.querySelectorAll("button")];
  if (had) buttons.find((button) => button.dataset.member === had)?.focus();
}

byId("limited").addEventListener("click", (event) => {
  const place = net.places.get(event.target.closest("button")?.dataset.key);
  if (!place) return;
  for (let above = place.above; above; above = above.above) opened.add(above.key);
  choose(place);
  rows.get(place.key)?.row.scrollIntoView({ block: "nearest" });
  focus(place, false);
});
