// The page itself: figures, warnings, events, the stream that feeds it, its theme, and the slider of a run that is over

const THEMES = ["auto", "light", "dark"];
const AGAIN = 2000; // milliseconds after which a stream that was refused is opened again
const LENGTH = 20; // seconds that a whole run takes to be played
const view = { connected: false, refused: "", due: false, reader: null, asking: false, playing: 0 };

function choose(row) {
  store.chosen = store.chosen === row ? null : row;
  redraw();
}

/** Draw what there is, once, when the browser is ready to. */
function redraw() {
  if (view.due) return;
  view.due = true;
  requestAnimationFrame(() => {
    view.due = false;
    drawFigures();
    drawAlerts();
    drawEvents();
    drawTable();
    drawCurve();
    drawShares();
    drawLanes();
    fillPoints();
  });
}

function drawFigures() {
  const now = store.now ?? {},
    states = now.states ?? {};
  const here = (states.working ?? 0) + (states.stalled ?? 0);
  const others = Object.entries(states)
    .filter(([state]) => state !== "working")
    .map(([state, number]) => `${number} ${state}`);
  const left =
    now.target && now.rate > 0 && now.version < now.target && !store.ended
      ? `${duration((now.target - now.version) / now.rate)} left`
      : "";
  const shown = [
    [
      "Iteration",
      count(now.version),
      now.target ? `of ${count(now.target)}${left ? `, ${left}` : ""}` : store.about.root ? "of the root" : "",
      now.target ? now.version / now.target : null,
    ],
    ["Updates", `${figure(now.rate)} /s`],
    [
      "Workers",
      store.now ? count(here) : "–",
      store.now ? [`here, of ${count(now.workers)}`, ...others].join(", ") : "",
    ],
    ["Reports", count(now.reports), now.refused ? `${count(now.refused)} refused` : ""],
    ...(now.progressive !== null || now.loss === null ? [["Loss", figure(now.progressive, 4), "of new samples"]] : []),
    ...(now.loss === null || now.loss === undefined
      ? []
      : measureName() === "loss"
        ? [["Loss", figure(now.loss, 4), "of the model"]]
        : [["Error", figure(now.loss, 4), measureName()]]),
    ...Object.entries(now.metrics ?? {}).map(([name, value]) => [name, figure(value, 4)]),
    ["Age of gradients", figure(now.age), "steps, mean"],
    ...[
      ["Step η", store.about.root ? null : now.step],
      ["Gradients ‖g‖", now.norm],
    ]
      .filter(([, value]) => value !== null || !(store.slider || store.about.root))
      .map(([name, value]) => [name, figure(value)]),
    ...(store.slider
      ? []
      : [["Model ‖w‖", figure(now.length), store.about.d ? `d = ${count(Number(store.about.d))}` : ""]]),
    [
      "Running",
      duration(now.seconds ?? NaN),
      now.saved === null || now.saved === undefined ? "" : `saved ${duration(now.saved)} ago`,
    ],
  ];
  const list = byId("figures");
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach(([words, value, more, part], k) => {
    const tile = list.children[k] ?? list.appendChild(tileOf());
    const [term, figureNode, moreNode] = tile.children;
    say(term, words);
    say(figureNode, value);
    say(moreNode.firstChild, more ?? "");
    moreNode.lastChild.hidden = part === null || part === undefined;
    if (part) moreNode.lastChild.firstChild.style.width = `${100 * Math.min(part, 1)}%`;
  });
  const about = store.about;
  say(
    byId("what"),
    about.method ? `${about.method.split("(")[0]} · ${about.problem ?? ""} · ${about.activity ?? ""}` : "",
  );
  drawStatus(now);
}

function tileOf() {
  const tile = element("div"),
    more = element("dd", "more"),
    bar = element("div", "bar");
  bar.append(element("i"));
  more.append(element("span"), bar);
  tile.append(element("dt"), element("dd"), more);
  return tile;
}

function drawStatus(now) {
  let [words, kind] = [store.about.root ? "relaying" : "training", "live"];
  if (store.slider) [words, kind] = ["recorded", ""];
  else if (store.ended) [words, kind] = now.done ? ["done", "live"] : ["ended", ""];
  else if (view.refused) [words, kind] = [view.refused, "lost"];
  else if (!view.connected) [words, kind] = [store.now ? "connection lost; reconnecting" : "connecting", "lost"];
  else if (!store.now) [words, kind] = ["starting", ""];
  say(byId("status"), words);
  byId("status").className = `pill ${kind}`;
  const title = store.now ? `${words} · ${count(now.version)} · siag` : "siag";
  if (document.title !== title) document.title = title;
  for (const id of ["npy", "json"]) byId(id).hidden = !store.model || (!view.connected && !store.slider);
  if (store.about.d && Number(store.about.d) > 1e6) byId("json").hidden = true;
}

function drawAlerts() {
  const wanted = [...store.problems.map((text) => ["bad", text]), ...store.warnings.map((text) => ["", text])];
  const box = byId("alerts"),
    shown = JSON.stringify(wanted);
  if (box.dataset.shown === shown) return;
  box.dataset.shown = shown;
  box.replaceChildren(
    ...wanted.map(([kind, text]) => {
      const [what, remedy] = remedyOf(text),
        made = element("p", `alert ${kind}`);
      made.append(element("b", "", `${kind ? "Problem" : "Warning"}: ${what}`));
      if (remedy) made.append(`What to do: ${remedy}`);
      return made;
    }),
  );
}

function drawEvents() {
  const list = byId("events"),
    newest = `${store.run} ${store.events[0]?.number ?? -1}`;
  if (list.dataset.newest === newest) return;
  list.dataset.newest = newest;
  list.replaceChildren(
    ...store.events.map(({ seconds, wrong, text }) => {
      const item = element("li", /^(problem|diverged)/.test(text) ? "bad" : wrong ? "warn" : "");
      item.append(element("span", "", stopwatch(seconds ?? 0)), element("span", "", text));
      return item;
    }),
  );
  const about = byId("about");
  about.replaceChildren(
    ...Object.entries(store.about).flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]),
  );
}

// The stream

function connect() {
  view.reader?.close();
  const reader = (view.reader = new EventSource("stream"));
  reader.onopen = () => Object.assign(view, { connected: true, refused: "" });
  reader.onmessage = (event) => {
    view.connected = true;
    const message = JSON.parse(event.data);
    if (store.moment !== null) for (const name of ["now", "rows", "warnings", "problems"]) delete message[name];
    take(message);
    setUpSlider();
    if (store.ended && !store.slider) {
      reader.close();
      setTimeout(connect, AGAIN); // it may be started again
      view.connected = false;
    }
    if (!document.hidden) redraw();
  };
  reader.onerror = () => {
    view.connected = false;
    if (reader.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN);
    redraw();
  };
}

// A run that is over: any moment of it

function setUpSlider() {
  if (!store.slider || !byId("time").hidden) return;
  byId("time").hidden = false;
  moveTo(store.slider.end);
}

function moveTo(seconds) {
  store.moment = Math.min(Math.max(seconds, 0), store.slider.end);
  byId("slider").value = String((1000 * store.moment) / store.slider.end);
  const words = `${duration(store.moment)} of ${duration(store.slider.end)}`;
  say(byId("moment"), words);
  byId("slider").setAttribute("aria-valuetext", words);
  ask();
  redraw();
}

/** Ask for the moment that is looked at; one question at a time, and the larger the answer the later the next. */
async function ask() {
  if (view.asking) return;
  view.asking = true;
  const moment = store.moment;
  let wait = 250;
  try {
    const answer = await fetch(`at?${moment}`);
    const text = await answer.text();
    wait = Math.max(wait, text.length / 48);
    if (answer.ok) take(JSON.parse(text));
  } catch {
    view.connected = false;
  }
  redraw();
  setTimeout(() => {
    view.asking = false;
    if (store.moment !== moment) ask();
  }, wait);
}

function play(on) {
  cancelAnimationFrame(view.playing);
  byId("play").setAttribute("aria-pressed", String(on));
  say(byId("play"), on ? "Pause" : "Play");
  if (!on) return;
  let before = performance.now();
  if (store.moment >= store.slider.end) moveTo(0);
  const next = (time) => {
    moveTo(store.moment + ((time - before) / 1000 / LENGTH) * store.slider.end);
    before = time;
    if (store.moment < store.slider.end) view.playing = requestAnimationFrame(next);
    else play(false);
  };
  view.playing = requestAnimationFrame(next);
}

// The theme

function kept(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return null; // a browser may forbid it
  }
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  say(byId("theme"), `Theme: ${theme}`);
  themeChanged();
  redraw();
}

function setUp() {
  let theme = THEMES.includes(kept("siag-theme")) ? kept("siag-theme") : "auto";
  setTheme(theme);
  byId("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    kept("siag-theme", theme);
    setTheme(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(theme));
  for (const kind of ["npy", "json"]) {
    byId(kind).addEventListener("click", () =>
      Object.assign(element("a"), { href: `model.${kind}`, download: `w.${kind}` }).click(),
    );
  }
  byId("slider").addEventListener("input", (event) => {
    play(false);
    moveTo((event.target.value / 1000) * store.slider.end);
  });
  byId("play").addEventListener("click", () => play(byId("play").getAttribute("aria-pressed") !== "true"));
  setUpCurve(redraw);
  setUpLanes(redraw);
  setUpTable(redraw);
  addEventListener("resize", redraw);
  document.addEventListener("visibilitychange", redraw);
  connect();
}

setUp();
