"""The page in a real browser, as people use it: for `make test-browser`, which installs one."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import replace

import pytest
from helpers.browser import CONTRASTS, find, phrases, point, shading, wait
from helpers.serve_fakes import FakeGenerator, command, look, serving
from helpers.waiting import PATIENCE

from onmt_exhird.serve.limits import Limits

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.browser

TEXT = "Neural machines\nWe study neural machines, and nothing else. Machines read."
HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(2)> &amp; </div> 😀😀 <b>markup</b> “quoted”"


@pytest.fixture(scope="session")
def browser():
    executable = shutil.which("chromium")
    assert executable, "there is no chromium; `make test-browser` installs it"
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Opens a server's page; at the end nothing may have been logged, raised or asked of another server."""
    contexts, complaints = [], []

    def open_page(server, **options):
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        contexts.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        page.complaints = complaints
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        address = f"http://127.0.0.1:{server.port}/"
        page.on("request", lambda request: request.url.startswith(address) or complaints.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(open_page, server):
    return open_page(server)


def test_a_pasted_text_gives_phrases_marked_where_they_stand_and_others_beside(page):
    find(page, TEXT)
    assert phrases(page, "present") == ["Neural", "Neural machines", "machines", "nothing"]
    assert phrases(page, "absent") == ["words 11"]
    assert page.locator("#status").inner_text() == "Read all 11 words; found 5 phrases, of which 1 begins like another."
    marks = page.locator("#marked mark")
    assert marks.all_inner_texts() == [
        *("Neural", " ", "machines", "neural", " ", "machines", "nothing", "Machines"),  # split where phrases overlap
    ]
    twice = marks.evaluate_all("all => all.map(one => one.classList.contains('twice'))")
    assert twice == [True, False, True, True, False, True, False, False]
    assert page.locator("#marked").text_content() == TEXT


def test_bars_are_as_long_as_the_scores(page):
    find(page, TEXT)
    widths = page.locator("#list .bar span").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().width / one.parentElement.getBoundingClientRect().width)"
    )
    scores = [phrase.score for phrase in FakeGenerator().one(TEXT)]
    assert widths == pytest.approx(scores, abs=0.01)


def test_pointing_shades_the_text_by_phrase_and_by_word(page):
    find(page, TEXT)
    row = page.locator("#list .phrase").filter(has_text="Neural machines")
    row.locator(".word").first.hover()
    page.get_by_role("heading", name="Where the model looked for “neural”").wait_for()
    assert {text for level, text in shading(page) if level == 8} == {"Neural", "neural"}
    page.locator("#list li").filter(has_text="Neural machines").locator(".facts").hover()
    page.get_by_role("heading", name="Where the model looked for “neural machines”").wait_for()
    assert {text.lower() for level, text in shading(page) if level == 8} == {"neural", "machines"}
    assert page.locator("#look-words").inner_text().count("was copied from the text (90 %)") == 2
    assert "not allowed to begin with “graph”" in page.locator("#look-not").inner_text()
    rows = page.locator("#look-table tr").all_inner_texts()
    assert rows[0].split("\t") == ["neural", "18 %"]  # 9 of 2 * 9 + 3 * 9 + 6 * 1
    page.get_by_role("button", name="Done").click()
    assert shading(page) == [] and page.locator("#look").is_hidden()


def test_a_word_of_the_model_s_own_is_told_as_such(page):
    find(page, TEXT)
    point(page, "words 11")
    assert "“words” is the model's own word (80 %)" in page.locator("#look-words").inner_text()


def test_a_phrase_stays_as_the_text_has_it_where_the_model_wrote_another_form(page, generator, monkeypatch):
    plain = generator.one

    def in_the_singular(document, **options):
        found = plain(document, **options)
        phrases = [replace(phrase, text=phrase.text.replace("machines", "machine")) for phrase in found.phrases]
        if options.get("attention"):
            tokens = list(found.tokens)
            phrases = [replace(phrase, attention=look(phrase.text, tokens, attention=True)) for phrase in phrases]
        return replace(found, phrases=tuple(phrases))

    monkeypatch.setattr(generator, "one", in_the_singular)
    find(page, TEXT)
    before = phrases(page)
    page.locator("#list .phrase").filter(has_text="Neural machines").locator(".word").nth(1).hover()
    page.get_by_role("heading", name="Where the model looked for “machine”").wait_for()
    assert phrases(page) == before and "Neural machines" in before


def test_pointing_at_none_is_pointing_at_nothing(page):
    find(page, "a b c")
    page.locator("#present .none").hover()
    page.locator("#present .none").click()
    assert page.locator("#look").is_hidden() and page.locator("#list li.on").count() == 0


def test_all_of_it_by_keyboard(page):
    page.get_by_label("Your text").focus()
    page.keyboard.insert_text(TEXT)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#list .phrase")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "phrase":
            break
    title = page.locator("#look-title")
    assert title.inner_text() == "Where the model looked for “neural”"
    page.keyboard.press("ArrowDown")
    assert title.inner_text() == "Where the model looked for “neural machines”"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert title.inner_text() == "Where the model looked for “machines”"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    assert page.locator("#list li.off").inner_text().startswith("Neural machines")
    page.keyboard.press("Escape")
    assert page.locator("#look").is_hidden()


def test_sliding_the_window_makes_repeats_come_and_go(page, generator):
    find(page, TEXT)
    slider = page.get_by_label("Keep phrases apart")
    slider.fill("0")
    page.get_by_text("neural again", exact=True).wait_for()
    assert page.locator("#list li").filter(has_text="begins alike").count() == 2
    says = "Read all 11 words; found 6 phrases, 1 more than before, of which 2 begin like another."
    assert page.locator("#status").inner_text() == says
    slider.fill("6")
    wait(page, "document.getElementById('status').textContent.includes('1 fewer')")
    assert "neural again" not in phrases(page)
    assert slider.get_attribute("aria-valuetext") == "all"
    assert [options["window"] for _, options in generator.batches] == [1, 0, "all"]


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("List", "Neural\nmachines\nnothing\nwords 11\n"),
        ("RIS", "KW  - Neural\nKW  - machines\nKW  - nothing\nKW  - words 11\n"),
    ],
)
def test_the_rest_is_copied_when_one_is_ticked_off(open_page, server, name, holds):
    page = open_page(server, permissions=["clipboard-read", "clipboard-write"])
    find(page, TEXT)
    page.get_by_label("Keep Neural machines").uncheck()
    assert "twice" not in page.locator("#marked mark").evaluate_all("all => all.map(one => one.className).join()")
    page.get_by_role("button", name=name, exact=True).click()
    page.get_by_text("Copied 4 phrases.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == holds


def test_json_is_what_the_service_gave(open_page, server):
    page = open_page(server, permissions=["clipboard-read", "clipboard-write"])
    find(page, TEXT)
    page.get_by_role("button", name="JSON").click()
    page.get_by_text("Copied 5 phrases.").wait_for()
    given = FakeGenerator().one(TEXT).to_dict()["keyphrases"]
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == json.loads(json.dumps(given))


def test_where_the_clipboard_is_closed_the_phrases_can_be_taken_by_hand(page):
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    find(page, TEXT)
    page.get_by_role("button", name="RIS").click()
    assert page.get_by_label("Copy this by hand").input_value().startswith("KW  - Neural\n")


def test_a_hostile_text_shows_as_it_is(page):
    find(page, HOSTILE)
    assert page.locator("#marked").text_content() == HOSTILE
    assert page.locator("#marked").evaluate("one => [...one.querySelectorAll('*')].map(one => one.tagName)") == [
        "MARK" for _ in page.locator("#marked mark").all()
    ]
    assert page.locator("#marked mark").all_inner_texts() == ["script", "script", "onerror", "markup", "quoted"]
    point(page, "markup")
    assert [text for level, text in shading(page) if level == 8] == ["markup"]


def test_ten_thousand_words_leave_the_page_usable(page):
    find(page, "Neural machines. " + "word after another word " * 2500)
    assert (
        page.locator("#status").inner_text()
        == "Read all 10,002 words; found 5 phrases, of which 1 begins like another."
    )
    point(page, "Neural machines")
    began = page.evaluate("performance.now()")
    point(page, "another")
    assert page.evaluate("performance.now()") - began < 2000
    assert page.locator("#look-table tr").first.inner_text().startswith("another")


def test_of_a_very_long_text_the_phrases_are_shown_and_nothing_else_is_asked(page, generator):
    find(page, "Neural machines. " + "word after another word " * 5000)
    page.get_by_text("It is too long to show where the model looked.").wait_for()
    assert [options["attention"] for _, options in generator.batches] == [False]
    page.locator("#list .phrase").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#look").is_hidden() and page.locator("#list li.on").count() == 1


def test_examples_and_files(page, tmp_path):
    for name in ("Bee hives", "Bus timetables", "Water mills"):
        page.get_by_role("button", name=name).click()
        wait(page, "document.querySelector('#marked').textContent === document.querySelector('#text').value")
    (tmp_path / "latin.txt").write_bytes("Größenverhältnis machines".encode("cp1252"))
    page.locator("#file").set_input_files(tmp_path / "latin.txt")
    page.get_by_text("Größenverhältnis machines").first.wait_for()
    drop = """text => {
        const data = new DataTransfer();
        data.items.add(new File([text], 'dropped.txt', {type: 'text/plain'}));
        document.getElementById('text').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true}));
    }"""
    assert page.locator("#file").input_value() == ""  # so that the same one can be opened again
    page.evaluate(drop, "Dropped machines")
    wait(page, "document.querySelector('#marked').textContent === 'Dropped machines'")
    left_to_the_box = """() => {
        const data = new DataTransfer();
        data.setData('text/plain', 'words of another window');
        const event = new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true});
        return document.getElementById('text').dispatchEvent(event);
    }"""
    assert page.evaluate(left_to_the_box)
    (tmp_path / "paper.pdf").write_bytes(b"%PDF")
    page.locator("#file").set_input_files(tmp_path / "paper.pdf")
    page.get_by_role("alert").get_by_text("Only plain text files").wait_for()


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("A title\nand a text", {"title": "A title", "text": "and a text"}),
        ("A title\n\nand a text\n", {"title": "A title", "text": "\nand a text\n"}),
        ("One line", "One line"),
        ("\nNo title", "\nNo title"),
        ("No text\n- -", "No text\n- -"),
        ("word " * 41 + "\nis no title", "word " * 41 + "\nis no title"),
    ],
)
def test_a_short_first_line_is_the_title(page, generator, text, document):
    find(page, text)
    assert generator.batches[0][0] == [document]
    assert page.locator("#marked").text_content() == text


def test_the_slider_begins_where_the_model_does(open_page, generator):
    generator.config = {"search": {"window": None}}
    with serving(generator) as server:
        page = open_page(server)
        page.get_by_text("Model: fake.").wait_for()
        assert page.get_by_label("Keep phrases apart", exact=True).get_attribute("aria-valuetext") == "all"


def test_an_empty_text_is_answered_with_a_hint(page, generator):
    page.get_by_role("button", name="Find keyphrases").click()
    page.get_by_text("There is no text yet").wait_for()
    assert generator.batches == []


def test_nothing_is_wider_than_a_narrow_screen(open_page, server):
    page = open_page(server, viewport={"width": 320, "height": 640})
    find(page, TEXT + " " + "unbreakable" * 20)
    page.locator("#list .phrase").first.click()
    page.get_by_role("heading", name="Where the model looked").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    wait(page, "document.getElementById('marked').getBoundingClientRect().top < innerHeight")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_in_light_and_dark(open_page, server, scheme):
    page = open_page(server, color_scheme=scheme, reduced_motion="reduce")
    find(page, TEXT)
    page.get_by_label("Keep phrases apart").fill("0")
    page.get_by_text("neural again", exact=True).wait_for()
    measured = page.evaluate(CONTRASTS)
    point(page, "Neural machines")
    measured += page.evaluate(CONTRASTS)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(18, 22, 27)") == (scheme == "dark")
    assert len(measured) > 60
    assert [one for one in measured if one[0] < 4.5] == []


def test_a_screen_reader_finds_names_and_parts(page):
    find(page, TEXT)
    assert page.get_by_role("list", name="Stands in the text").get_by_role("listitem").count() == 4
    assert page.get_by_role("list", name="Not in the text, inferred").get_by_role("listitem").count() == 1
    assert page.get_by_role("checkbox", name="Keep Neural machines").is_checked()
    point(page, "Neural machines")
    assert page.get_by_role("table", name="Looked at most").get_by_role("row").count() == 9
    assert page.locator("button:not([aria-hidden])").evaluate_all("all => all.every(one => one.textContent.trim())")
    assert page.locator("html").get_attribute("lang") == "en"


def test_a_server_that_was_stopped_is_told_and_its_return_noticed(open_page, generator, monkeypatch):
    with serving(generator) as server:
        page = open_page(server)
        find(page, TEXT)
    page.get_by_role("button", name="Find keyphrases").click()
    page.get_by_role("alert").get_by_text("The server does not answer").wait_for()
    assert phrases(page)  # what was there stays
    assert [one for one in page.complaints if "ERR_CONNECTION_REFUSED" not in one] == []
    page.complaints.clear()  # the browser itself logs a refused connection
    with serving(generator, port=server.port):
        page.get_by_role("button", name="Try again").click()
        page.get_by_role("alert").wait_for(state="hidden")


def test_a_busy_server_is_told_in_its_own_words(open_page, generator):
    with serving(generator) as server:
        page = open_page(server)
        server.worker.stop()
        page.get_by_label("Your text").fill(TEXT)
        page.get_by_role("button", name="Find keyphrases").click()
        page.get_by_role("alert").get_by_text("The server is stopping").wait_for()
        page.complaints.clear()  # the browser itself logs a status of 503


def test_only_the_last_of_quick_changes_is_shown_and_the_others_cost_nothing(page, generator):
    find(page, TEXT)
    generator.gate.clear()
    slider = page.get_by_label("Keep phrases apart")
    for value in ("2", "3", "4"):
        slider.fill(value)
        page.wait_for_timeout(250)
    generator.gate.set()
    wait(page, "!document.body.classList.contains('busy')")
    assert [options["window"] for _, options in generator.batches] == [1, 2, 4]  # 3 was taken back while it waited


def test_a_change_while_phrases_fade_is_not_taken_back_by_asking_where_the_model_looked(page, generator):
    slider = page.get_by_label("Keep phrases apart")
    find(page, "Neural machines. " + "word after another word " * 500)
    slider.fill("0")
    page.get_by_text("neural again", exact=True).wait_for()
    wait(page, "!document.body.classList.contains('busy')")
    slider.fill("1")
    page.locator("#list .leaving").wait_for()
    generator.gate.clear()
    slider.fill("0")
    page.wait_for_timeout(600)  # the fading is over
    generator.gate.set()
    wait(page, "!document.body.classList.contains('busy')")
    page.get_by_text("neural again", exact=True).wait_for()
    asked = [(options["window"], options["attention"]) for _, options in generator.batches]
    assert asked[:4] == [(1, False), (1, True), (0, False), (0, True)]
    assert asked[-2:] == [(0, False), (0, True)]


def test_no_more_is_asked_for_than_the_server_takes_with_attention(open_page, generator):
    with serving(generator, Limits(bytes=600)) as server:
        page = open_page(server)
        page.get_by_text("Model: fake.").wait_for()
        find(page, TEXT)  # of few words, and of more than 60 characters
        page.get_by_text("It is too long to show where the model looked.").wait_for()
    assert [options["attention"] for _, options in generator.batches] == [False]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Options of `exhird serve` and a text: the shipped model, if there is one, else a small one made on the spot."""
    from helpers.generator_models import make

    from onmt_exhird import KeyphraseGenerator
    from onmt_exhird.errors import ExhirdError
    from onmt_exhird.generator.loading import load

    try:
        load(None)
    except ExhirdError:
        folder = tmp_path_factory.mktemp("browser") / "model"
        KeyphraseGenerator(make(seed=7)).save_pretrained(folder)
        return ["--model", folder], "deep proofs Café\ndocument colouring learning"
    return [], "Neural parsing of historical maps\nA graph neural network finds place names on historical maps."


def test_the_command_with_a_real_model_from_the_first_text_to_its_end(open_page, model):
    options, text = model
    with command(*options) as server:
        use_it(open_page, server, text)


def use_it(open_page, server, text):
    page = open_page(server, permissions=["clipboard-read", "clipboard-write"])
    find(page, text)
    first = phrases(page)
    assert len(first) > 1 and page.locator("#marked").text_content() == text
    page.locator("#list .phrase").first.focus()
    page.get_by_role("heading", name="Where the model looked").wait_for()
    assert shading(page)[0][0] == 8
    for value in ("0", "1"):
        with page.expect_response("**/v1/keyphrases") as answer:
            page.get_by_label("Keep phrases apart", exact=True).fill(value)
        assert answer.value.status == 200
    wait(page, "!document.querySelector('.busy, .leaving')")
    assert phrases(page) == first
    page.locator("#list .tick input").first.uncheck()
    page.get_by_role("button", name="List", exact=True).click()
    page.get_by_role("status").filter(has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").splitlines() == first[1:]
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0
    page.get_by_role("button", name="Find keyphrases").click()
    page.get_by_role("alert").get_by_text("The server does not answer").wait_for()
    page.complaints.clear()  # the browser itself logs a refused connection
