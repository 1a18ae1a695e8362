// The page that stands in for the workbench: says how the server does and how to use its API.
// Everything shown comes from the server itself; texts come from texts/<language>.json.

const LANGUAGES = ["zh-CN", "en"];
const REFRESH_MS = 15000;

let texts = {};
let known = { health: null, me: null };

function text(path, values = {}) {
  const found = path.split(".").reduce((place, key) => place?.[key], texts);
  if (typeof found !== "string") return "";
  return found.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

function element(kind, properties = {}, ...children) {
  const made = Object.assign(document.createElement(kind), properties);
  made.append(...children);
  return made;
}

// `code` in a text is shown as code.
function pieces(words) {
  return words
    .split("`")
    .map((part, index) => (index % 2 ? element("code", { textContent: part }) : part));
}

function paragraph(words, className = "") {
  return element("p", { className }, ...pieces(words));
}

function state(status) {
  return element("span", { className: `state ${status}`, textContent: text(`status.${status}`) });
}

// Language ---------------------------------------------------------------------------------

function preferred() {
  const chosen = localStorage.getItem("gw-language");
  if (LANGUAGES.includes(chosen)) return chosen;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
}

async function speak(language) {
  const answer = await fetch(`/static/texts/${language}.json`);
  texts = await answer.json();
  document.documentElement.lang = language;
  for (const place of document.querySelectorAll("[data-text]")) {
    place.replaceChildren(...pieces(text(place.dataset.text)));
  }
  for (const place of document.querySelectorAll("[data-label]")) {
    place.setAttribute("aria-label", text(place.dataset.label));
  }
  for (const button of document.querySelectorAll("[data-language]")) {
    button.setAttribute("aria-pressed", String(button.dataset.language === language));
  }
  drawSteps();
  draw();
}

// What the server says -----------------------------------------------------------------------

async function ask(path) {
  try {
    const answer = await fetch(path, { headers: { accept: "application/json" } });
    return await answer.json(); // a server that is down says so with 503 and the same shape
  } catch {
    return null;
  }
}

async function refresh() {
  const [health, me] = await Promise.all([ask("/health"), ask("/api/auth/me")]);
  known = { health, me };
  draw();
}

function draw() {
  drawHealth(known.health);
  drawModel(known.health);
  drawYou(known.me);
}

function drawHealth(health) {
  const list = document.getElementById("health");
  const overall = document.getElementById("overall");
  if (!health?.parts) {
    overall.replaceChildren(state("down"));
    list.replaceChildren(element("li", {}, paragraph(text("health.unreachable"))));
    return;
  }
  overall.replaceChildren(state(health.status));
  list.replaceChildren(...health.parts.map(partRow));
  document.getElementById("version").textContent = text("version", { version: health.version });
}

// Parts that are off, or limited on purpose, have a sentence of ours in the reader's language.
// Anything else is said in the server's own words, which are English.
function partRow(part) {
  const ours = part.status === "off" || part.facts?.demo ? text(`causes.${part.id}`) : "";
  const why = element("div", { className: "why" });
  if (ours) {
    why.append(paragraph(ours, "muted"));
  } else if (part.cause) {
    why.lang = "en";
    why.append(paragraph(part.cause));
    if (part.cure) why.append(paragraph(text("health.cure", { cure: part.cure }), "muted"));
  }
  const name = text(`parts.${part.id}`) || part.id;
  return element("li", {}, element("span", { textContent: name }), state(part.status), why);
}

function drawModel(health) {
  const place = document.getElementById("model");
  const part = health?.parts?.find((one) => one.id === "model");
  if (!part) {
    place.replaceChildren(paragraph(text("unknown"), "muted"));
    return;
  }
  const name = element("p", { className: "big", textContent: part.facts.name });
  const words = part.facts.demo ? ["model.demo", "model.configure"] : ["model.configured"];
  place.replaceChildren(name, ...words.map((key) => paragraph(text(key))));
}

function drawYou(me) {
  const place = document.getElementById("you");
  if (!me || typeof me.signed_in !== "boolean") {
    place.replaceChildren(paragraph(text("unknown"), "muted"));
    return;
  }
  if (!me.signed_in) {
    place.replaceChildren(
      element("p", { className: "big", textContent: text("you.out") }),
      paragraph(text("you.how")),
    );
    return;
  }
  const leave = element("button", { type: "button", className: "plain", textContent: text("you.leave") });
  leave.addEventListener("click", async () => {
    await fetch("/auth/logout", { method: "POST" });
    await refresh();
  });
  place.replaceChildren(
    element("p", { className: "big", textContent: text("you.in", { name: me.user_name }) }),
    paragraph(text("you.cookie")),
    leave,
  );
}

// Commands -----------------------------------------------------------------------------------

const COMMANDS = {
  key: () => "KEY=$(.venv/bin/graphwright key create --name my-laptop)",
  chat: () =>
    `curl -N ${location.origin}/api/chat \\\n` +
    `  -H "Authorization: Bearer $KEY" \\\n` +
    `  -F 'message=${text("try.chat.message")}'`,
  approve: () =>
    `curl -N ${location.origin}/api/chat/resume \\\n` +
    `  -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \\\n` +
    `  -d '{"session_id": "…", "interrupt_token": "…",\n` +
    `       "decisions": [{"tool_call_id": "…", "type": "approve"}]}'`,
  history: () =>
    `curl ${location.origin}/api/chat/history/SESSION_ID \\\n` +
    `  -H "Authorization: Bearer $KEY"`,
  terminal: () => ".venv/bin/graphwright chat",
};

function drawSteps() {
  const steps = Object.entries(COMMANDS).map(([name, command]) =>
    element(
      "li",
      {},
      element("h3", { textContent: text(`try.${name}.title`) }),
      paragraph(text(`try.${name}.text`), "muted"),
      commandBox(command()),
    ),
  );
  document.getElementById("steps").replaceChildren(...steps);
}

function commandBox(command) {
  const copy = element("button", { type: "button", textContent: text("copy.do") });
  const area = element("pre", { tabIndex: 0 }, element("code", { textContent: command }));
  copy.addEventListener("click", async () => {
    const done = await copied(command, area);
    copy.textContent = text(done ? "copy.done" : "copy.failed");
    setTimeout(() => (copy.textContent = text("copy.do")), 2000);
  });
  return element("div", { className: "command" }, copy, area);
}

async function copied(command, area) {
  try {
    await navigator.clipboard.writeText(command);
    return true;
  } catch {
    getSelection().selectAllChildren(area); // at least it is marked for Ctrl+C
    return false;
  }
}

// Start --------------------------------------------------------------------------------------

for (const button of document.querySelectorAll("[data-language]")) {
  button.addEventListener("click", () => {
    localStorage.setItem("gw-language", button.dataset.language);
    speak(button.dataset.language);
  });
}

await speak(preferred());
await refresh();
setInterval(() => document.hidden || refresh(), REFRESH_MS);
