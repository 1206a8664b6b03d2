// The table of workers: sorted, filtered, a page at a time; what is chosen in it is shown in all pictures.

const PAGE = 50;
const HEADS = [
  ["name", "Worker", (worker) => worker.name],
  ["state", "State", (worker) => worker.state],
  ["reports", "Reports", (worker) => count(worker.reports)],
  ["part", "of all", (worker) => percent(worker.part)],
  ["share", "counts for", (worker) => percent(worker.share ?? NaN)],
  ["weight", "weight", (worker) => figure(worker.weight)],
  ["rate", "per second", (worker) => (worker.rate < 1e-3 ? "0" : figure(worker.rate))],
  ["age", "Age", (worker) => (worker.age < 0 ? "–" : count(worker.age))],
  ["meanAge", "mean age", (worker) => figure(worker.meanAge)],
  ["loss", "Loss", (worker) => figure(worker.loss)],
  ["norm", "‖g‖", (worker) => figure(worker.norm)],
  ["refused", "refused", (worker) => count(worker.refused)],
];
const table = { by: "reports", down: true, page: 0, rows: new Map() };
const names = new Intl.Collator("en", { numeric: true });

/** All workers that are to be shown, in order. */
function sortedWorkers() {
  const share = reportShares(),
    wanted = byId("filter").value.trim().toLowerCase();
  const found = workers().filter(
    (worker) => !wanted || `${worker.name} ${worker.state}`.toLowerCase().includes(wanted),
  );
  for (const worker of found) worker.part = share(worker);
  const sign = table.down ? -1 : 1;
  return found.sort((a, b) => {
    const [first, second] = [a[table.by], b[table.by]];
    const missing = (value) => value === null || value === undefined || Number.isNaN(value);
    if (missing(first) || missing(second)) return missing(first) - missing(second) || a.row - b.row;
    const order = typeof first === "string" ? names.compare(first, second) : first - second;
    return sign * order || a.row - b.row;
  });
}

function drawTable() {
  const all = sortedWorkers(),
    pages = Math.max(1, Math.ceil(all.length / PAGE));
  table.page = Math.min(table.page, pages - 1);
  byId("workers").classList.toggle("alike", !weighed());
  const first = table.page * PAGE,
    part = all.slice(first, first + PAGE),
    body = byId("workers").tBodies[0];
  const rows = part.map((worker) => rowOf(worker));
  if (rows.length !== body.rows.length || rows.some((row, k) => row !== body.rows[k])) replaceRows(body, rows);
  byId("pager").hidden = pages < 2;
  const shown =
    store.now && store.now.workers > store.workers.length && store.workers.length >= 2000
      ? `, the first of ${count(store.now.workers)}`
      : "";
  say(byId("which"), `${first + 1} to ${first + part.length} of ${count(all.length)}${shown}`);
  byId("before").disabled = table.page === 0;
  byId("after").disabled = table.page >= pages - 1;
}

/** Put rows in order without taking the focus from the one that has it. */
function replaceRows(body, rows) {
  const active = document.activeElement;
  body.replaceChildren(...rows);
  if (active instanceof HTMLElement && active !== document.activeElement && body.contains(active))
    active.focus({ preventScroll: true });
}

function rowOf(worker) {
  let row = table.rows.get(worker.row);
  if (!row) {
    row = element("tr");
    const button = element("button", "name");
    button.type = "button";
    button.addEventListener("click", () => choose(worker.row));
    const head = element("td");
    head.append(button);
    row.append(head, ...HEADS.slice(1).map(() => element("td")));
    table.rows.set(worker.row, row);
  }
  const chosen = worker.row === store.chosen,
    button = row.cells[0].firstChild;
  row.classList.toggle("chosen", chosen);
  say(button, worker.name);
  button.setAttribute("aria-pressed", String(chosen));
  button.title = worker.reason ? `${worker.name}: ${worker.reason}` : worker.name;
  HEADS.forEach(([, , words], k) => {
    if (k) say(row.cells[k], words(worker));
  });
  const state = `state ${worker.state}`;
  if (row.cells[1].className !== state) row.cells[1].className = state;
  return row;
}

function markSorted() {
  [...byId("workers").tHead.rows[0].cells].forEach((cell, k) => {
    const [name, words] = HEADS[k],
      on = name === table.by;
    if (on) cell.setAttribute("aria-sort", table.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
    say(cell.firstChild, on ? `${words} ${table.down ? "↓" : "↑"}` : words);
  });
}

function setUpTable(redraw) {
  const head = byId("workers").tHead.rows[0];
  for (const [name, words] of HEADS) {
    const cell = element("th"),
      button = element("button", "", words);
    cell.scope = "col";
    button.type = "button";
    button.addEventListener("click", () => {
      const text = name === "name" || name === "state";
      table.down = table.by === name ? !table.down : !text;
      table.by = name;
      table.page = 0;
      markSorted();
      redraw();
    });
    cell.append(button);
    head.append(cell);
  }
  markSorted();
  byId("filter").addEventListener("input", () => {
    table.page = 0;
    redraw();
  });
  for (const [id, way] of [
    ["before", -1],
    ["after", 1],
  ]) {
    byId(id).addEventListener("click", () => {
      table.page += way;
      redraw();
    });
  }
}
