// The page: a text in, phrases and their places out. Text is only ever set as text.

import { format, toClipboard } from "./copy.js";
import { EXAMPLES } from "./examples.js";
import { drawPhrases } from "./phrases.js";
import { drawLook, drawText } from "./reading.js";
import { askKeyphrases, askModel } from "./service.js";
import { asDocument, countWords, decode, endOf, unitsOf } from "./text.js";

const WINDOWS = [0, 1, 2, 3, 4, 5, "all"];
const SHORT = 1500; // words up to which it takes no noticeable time to ask at once where the model looked
const at = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

let shown = null; // what the page shows: {text, result, phrases, units, off}
let pointed = null; // {phrase, word}: indices; word is null for the phrase as a whole
let running = null; // the request under way
let limits = { bytes: 1000000, effort: 10 };

function say(sentence) {
  at("status").textContent = sentence;
}

function tell(sentence) {
  at("problem").hidden = !sentence;
  at("problem").firstElementChild.textContent = sentence;
}

function currentWindow() {
  return WINDOWS[at("window").valueAsNumber];
}

function describeWindow() {
  const window = currentWindow();
  const back = window === "all" ? "any phrase" : window === 1 ? "the phrase" : `any of the ${window} phrases`;
  const sentence = window ? `A phrase may not begin with the same word as ${back} before it.` : "Off: phrases may repeat each other.";
  at("window-says").textContent = sentence;
  at("window").setAttribute("aria-valuetext", window === 0 ? "off" : String(window));
}

function describeSize() {
  const words = countWords(at("text").value);
  at("size").textContent = words ? `${words.toLocaleString("en")} ${words === 1 ? "word" : "words"}` : "";
}

// Ask for the phrases of the text in the box; a request under way is taken back.
async function find() {
  const text = at("text").value;
  if (!text.trim()) {
    tell("");
    say("There is no text yet: paste one, or try an example.");
    at("text").focus();
    return;
  }
  const window = currentWindow();
  const explainable = text.length <= limits.bytes / limits.effort; // with attention, the server takes no longer ones
  const short = explainable && countWords(text) <= SHORT;
  say("Reading …");
  document.body.classList.add("busy");
  const result = await request(text, window, short);
  if (!result) return;
  await show(text, result);
  if (short || running) return; // or somebody has asked for something else meanwhile
  if (explainable) await explain(text, window);
  else say(`${at("status").textContent} It is too long to show where the model looked.`);
}

// Of a long text, the phrases are shown first, and where the model looked for them when that is known.
async function explain(text, window) {
  const mine = shown;
  const result = await request(text, window, true);
  if (!result || shown !== mine) return;
  mine.result = result;
  mine.phrases.forEach((phrase, i) => (phrase.attention = result.keyphrases[i]?.attention));
  draw();
}

async function request(text, window, attention) {
  running?.abort();
  running = new AbortController();
  const mine = running;
  try {
    if (new Blob([text]).size > limits.bytes) {
      throw new Error(`The text is larger than ${limits.bytes.toLocaleString("en")} bytes, the most this server takes.`);
    }
    const result = await askKeyphrases(asDocument(text), { window, attention }, mine.signal);
    tell("");
    return result;
  } catch (error) {
    if (error.name === "AbortError") return null;
    say("");
    tell(error.message);
    return null;
  } finally {
    if (running === mine) {
      running = null;
      document.body.classList.remove("busy");
    }
  }
}

async function show(text, result) {
  const before = shown;
  const units = unitsOf(text);
  const begun = new Map(); // the phrase that first began with a word
  const phrases = result.keyphrases.map((phrase) => {
    const [first] = phrase.text.split(" ");
    const like = begun.get(first) ?? null;
    if (like === null) begun.set(first, phrase.text);
    return { ...phrase, label: phrase.surface ?? phrase.text, like };
  });
  const same = before && before.text === text;
  shown = { text, result, phrases, units, off: same ? before.off : new Set() };
  if (same && !calm) await fade(new Set(phrases.map(({ text }) => text)));
  pointed = null;
  at("result").hidden = false;
  draw();
  say(summary(before && same ? before.phrases : null));
}

// Let the phrases go that are no longer there, before the rest closes up.
async function fade(texts) {
  const leaving = [...document.querySelectorAll("#list li[data-text]")].filter((row) => !texts.has(row.dataset.text));
  leaving.forEach((row) => row.classList.add("leaving"));
  if (leaving.length) await new Promise((resolve) => setTimeout(resolve, 350));
}

function summary(before) {
  const { text, result, phrases } = shown;
  const words = countWords(text);
  const many = words.toLocaleString("en");
  let read = `Read ${words === 1 ? "1 word" : `all ${many} words`}`;
  if (result.truncated) {
    const count = result.tokens && countWords(text.slice(0, shown.units(endOf(result.tokens))));
    read = `Read only ${count ? `the first ${count.toLocaleString("en")}` : "the beginning"} of ${many} words`;
  }
  const alike = phrases.filter(({ like }) => like !== null).length;
  const found = phrases.length === 1 ? "1 phrase" : `${phrases.length || "no"} phrases`;
  const fewer = before ? before.length - phrases.length : 0;
  const change = fewer > 0 ? `, ${fewer} fewer than before` : fewer < 0 ? `, ${-fewer} more than before` : "";
  return `${read}; found ${found}${change}${alike ? `, of which ${alike} ${alike === 1 ? "begins" : "begin"} like another` : ""}.`;
}

function draw() {
  drawPhrases(shown, pointed);
  drawText(shown, pointed);
  drawLook(shown, pointed);
  const kept = shown.phrases.filter(({ text }) => !shown.off.has(text)).length;
  document.querySelectorAll("[data-copy]").forEach((button) => (button.disabled = kept === 0));
}

function point(phrase, word) {
  if (pointed && pointed.phrase === phrase && pointed.word === word) return;
  pointed = { phrase, word };
  draw();
}

function unpoint() {
  pointed = null;
  if (shown) draw();
}

function targetOf(event) {
  const row = event.target.closest("#list li[data-index]");
  if (!row) return null;
  const word = event.target.closest(".word");
  return { phrase: Number(row.dataset.index), word: word ? Number(word.dataset.word) : null };
}

function onPointer(event) {
  const target = targetOf(event);
  if (target && !event.target.closest("label")) point(target.phrase, target.word);
}

function onClick(event) {
  const target = targetOf(event);
  if (!target || event.target.closest("label")) return;
  point(target.phrase, target.word);
  const box = at("marked").getBoundingClientRect();
  if (box.top > innerHeight || box.bottom < 0) at("reading").scrollIntoView({ behavior: calm ? "auto" : "smooth" });
}

function onKeys(event) {
  if (event.key === "Escape") return unpoint();
  const target = targetOf(event);
  if (!target || event.target.tagName !== "BUTTON") return;
  const buttons = [...document.querySelectorAll("#list .phrase")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const turn = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) buttons[buttons.indexOf(event.target) + step]?.focus();
  if (turn) {
    const most = shown.phrases[target.phrase].attention?.words.length;
    if (!most) return;
    const word = (pointed?.word ?? -1) + turn;
    point(target.phrase, word < 0 ? null : Math.min(word, most - 1));
  }
  if (step || turn) event.preventDefault();
}

function onTick(event) {
  const row = event.target.closest("li");
  const { text } = shown.phrases[Number(row.dataset.index)];
  if (event.target.checked) shown.off.delete(text);
  else shown.off.add(text);
  draw();
}

async function onCopy(event) {
  const kept = [true, false].flatMap((kind) => shown.phrases.filter(({ present, text }) => present === kind && !shown.off.has(text)));
  const text = format(kept, event.target.dataset.copy);
  const done = await toClipboard(text);
  at("by-hand").hidden = done;
  at("by-hand").value = done ? "" : text;
  if (!done) at("by-hand").select();
  say(done ? `Copied ${kept.length} ${kept.length === 1 ? "phrase" : "phrases"}.` : "The browser does not let this page copy; take it from the box.");
}

// A file anywhere on the page; a piece of text is the box's own affair.
function onDrop(event) {
  const [file] = event.dataTransfer.files;
  if (!file && event.target === at("text")) return;
  event.preventDefault();
  take(file);
}

async function take(file) {
  if (!file) return;
  if (!/\.txt$/i.test(file.name) && file.type !== "text/plain") return tell("Only plain text files (.txt) can be read here.");
  if (file.size > limits.bytes) return tell(`The file is larger than ${limits.bytes.toLocaleString("en")} bytes, the most this server takes.`);
  useText(decode(await file.arrayBuffer()));
}

function useText(text) {
  at("text").value = text;
  describeSize();
  find();
}

async function meet() {
  try {
    const model = await askModel();
    limits = model.limits;
    at("model").textContent = `Model: ${model.name}.`;
    const window = model.config.search?.window;
    if (window !== undefined && !shown) at("window").valueAsNumber = WINDOWS.indexOf(WINDOWS.includes(window) ? window : "all");
    describeWindow();
  } catch (error) {
    if (error.wait) setTimeout(meet, 1000 * error.wait);
    else tell(error.message);
  }
}

function wire() {
  let pause;
  at("form").addEventListener("submit", (event) => (event.preventDefault(), find()));
  at("text").addEventListener("input", describeSize);
  at("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find();
  });
  at("window").addEventListener("input", () => {
    describeWindow();
    clearTimeout(pause);
    pause = setTimeout(find, 150);
  });
  for (const { name, text } of EXAMPLES) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => useText(text));
    at("examples").append(button);
  }
  at("open").addEventListener("click", () => at("file").click());
  at("file").addEventListener("change", () => {
    take(at("file").files[0]);
    at("file").value = ""; // else the same file, chosen again, would be no change
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", onDrop);
  at("again").addEventListener("click", find);
  at("end").addEventListener("click", unpoint);
  at("list").addEventListener("pointerover", onPointer);
  at("list").addEventListener("click", onClick);
  at("list").addEventListener("focusin", (event) => event.target.classList.contains("phrase") && onPointer(event));
  at("list").addEventListener("change", (event) => event.target.type === "checkbox" && onTick(event));
  at("marked").addEventListener("click", (event) => {
    const mark = event.target.closest("mark");
    if (mark) point(Number(mark.dataset.phrase), null);
  });
  addEventListener("keydown", onKeys);
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", onCopy));
  describeWindow();
  describeSize();
  meet();
}

wire();
