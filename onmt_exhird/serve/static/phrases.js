// The list of phrases: built when the phrases change, otherwise only brought up to date, so that focus stays.

import { cutIntoWords, percent } from "./text.js";

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

export function drawPhrases(shown, pointed) {
  const lists = { true: document.getElementById("present"), false: document.getElementById("absent") };
  if (lists.true.shown !== shown) {
    lists.true.shown = shown;
    for (const [present, list] of Object.entries(lists)) {
      const rows = shown.phrases.map((phrase, index) => [phrase, index]).filter(([phrase]) => String(phrase.present) === present);
      list.replaceChildren(...rows.map(([phrase, index]) => makeRow(phrase, index)));
      if (!rows.length) list.append(make("li", "none quiet", "none"));
    }
  }
  document.querySelectorAll("#list li[data-index]").forEach((row) => update(row, shown, pointed));
}

function makeRow(phrase, index) {
  const row = make("li");
  row.dataset.index = index;
  row.dataset.text = phrase.text;
  const tick = make("input");
  tick.type = "checkbox";
  tick.setAttribute("aria-label", `Keep ${phrase.label}`);
  const holder = make("label", "tick");
  holder.append(tick);
  const button = make("button", "phrase");
  button.type = "button";
  button.setAttribute("aria-describedby", "hint");
  const bar = make("span", "bar");
  const fill = make("span");
  fill.style.width = `${100 * phrase.score}%`;
  bar.append(fill);
  const score = make("span", "score", percent(phrase.score));
  score.title = "How sure the model is";
  const facts = make("span", "facts quiet");
  if (phrase.like !== null) {
    const alike = make("span", "alike", "begins alike");
    alike.title = `Begins like “${phrase.like}”`;
    facts.append(alike);
  } else if (phrase.spans.length > 1) facts.append(make("span", "", `${phrase.spans.length} times`));
  facts.append(score);
  row.append(holder, button, facts, bar);
  return row;
}

function update(row, shown, pointed) {
  const index = Number(row.dataset.index);
  const phrase = shown.phrases[index];
  const on = pointed !== null && pointed.phrase === index;
  row.classList.toggle("off", shown.off.has(phrase.text));
  row.classList.toggle("on", on);
  row.querySelector("input").checked = !shown.off.has(phrase.text);
  const button = row.querySelector(".phrase");
  if (!button.firstChild || (phrase.attention && !button.querySelector(".word"))) button.replaceChildren(...label(phrase));
  button.querySelectorAll(".word").forEach((word) => word.classList.toggle("on", on && pointed.word === Number(word.dataset.word)));
}

// The phrase as the text writes it, which is what is copied; as the model does only if they differ in number of words.
function label(phrase) {
  const words = phrase.attention?.words.map(({ word }) => word);
  const parts = words && (cutIntoWords(phrase.label, words) ?? cutIntoWords(phrase.text, words));
  if (!parts) return [document.createTextNode(phrase.label)];
  return parts.map(({ text, word }) => {
    if (word === null) return document.createTextNode(text);
    const element = make("span", "word", text);
    element.dataset.word = word;
    return element;
  });
}
