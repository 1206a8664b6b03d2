// What the page knows of the run: it is sent what has changed, and puts it together here.

const DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
const VALUE = Object.fromEntries([...DIGITS].map((digit, k) => [digit, k]));
const FIELDS = ["version", "reports", "rate", "progressive", "loss", "age", "norm", "step"];
const WORKER = ["state", "reports", "rate", "age", "loss", "meanAge", "norm", "share", "weight", "refused"];
const EVENTS = 300;

const store = {};

function forgetAll() {
  Object.assign(store, {
    run: null,
    about: {},
    now: null,
    warnings: [],
    problems: [],
    events: [],
    workers: [],
    columns: [],
    ended: false,
    model: false,
    slider: null,
    moment: null,
    chosen: store.chosen ?? null,
  });
}
forgetAll();

/** Take a message in; another run begins anew. */
function take(message) {
  if (message.run !== undefined && message.run !== store.run) {
    forgetAll();
    store.run = message.run;
  }
  for (const name of ["about", "now", "warnings", "problems", "ended", "model", "slider"]) {
    if (message[name] !== undefined) store[name] = message[name];
  }
  for (const [number, seconds, wrong, text] of message.events ?? []) {
    store.events.unshift({ number, seconds, wrong, text });
  }
  store.events.length = Math.min(store.events.length, EVENTS);
  takeRows(message.rows ?? []);
  for (const column of message.columns ?? []) takeColumn(column);
}

function takeRows(rows) {
  for (const [row, ...values] of rows) {
    const worker = (store.workers[row] ??= { row, name: String(row), reason: "" });
    WORKER.forEach((name, k) => (worker[name] = values[k]));
    if (values.length > WORKER.length) [worker.name, worker.reason] = values.slice(WORKER.length);
  }
}

/** A column takes the place of all that it overlaps with: two may have become one. */
function takeColumn(column) {
  const [start, end] = column.t;
  const made = { start, end, most: column.most, lane: column.lane, age: column.age, losses: null, number: column.k };
  FIELDS.forEach((name, k) => (made[name] = column.f[k]));
  if (column.loss) made.losses = unpacked(column.loss, column.low, column.high);
  const rest = store.columns.filter((each) => each.end <= start + 1e-6 || each.start >= end - 1e-6);
  rest.push(made);
  rest.sort((a, b) => a.start - b.start);
  store.columns = rest;
}

function unpacked(text, low, high) {
  const found = new Array(text.length / 2);
  for (let k = 0; k < found.length; k++) {
    const [first, second] = [text[2 * k], text[2 * k + 1]];
    found[k] = first === " " ? null : low + ((high - low) * (64 * VALUE[first] + VALUE[second])) / 4095;
  }
  return found;
}

/** The workers there are, without holes. */
const workers = () => store.workers.filter((worker) => worker !== undefined);

/** The columns up to the moment that is looked at. */
const past = () => (store.moment === null ? store.columns : store.columns.filter((each) => each.start < store.moment));

/** Whether workers count for numbers that are worth a column: they were given, or some are relays. */
const weighed = () => store.now?.weights !== "samples" && new Set(workers().map((worker) => worker.weight)).size > 1;

/** Shares of all reports, by row. */
function reportShares() {
  const total = workers().reduce((sum, worker) => sum + worker.reports, 0);
  return (worker) => (total > 0 ? worker.reports / total : NaN);
}
