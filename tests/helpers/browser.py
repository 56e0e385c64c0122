"""What a reader does with the page, and what can be seen on it."""

from __future__ import annotations

# For everything with text: how it stands out from its ground (WCAG wants 4.5), and what it is.
CONTRASTS = """() => {
    const channels = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const over = (top, below) => below.map((c, i) => c * (1 - (top[3] ?? 1)) + top[i] * (top[3] ?? 1));
    const own = one => channels(getComputedStyle(one).backgroundColor);
    const ground = one => !one ? [255, 255, 255] : over(own(one), ground(one.parentElement));
    const found = [];
    for (const one of document.querySelectorAll('body *')) {
        const texts = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
        if (!texts || !one.getClientRects().length || one.disabled) continue;
        const [a, b] = [light(channels(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
        found.push([(a + 0.05) / (b + 0.05), one.className + ' ' + one.textContent.slice(0, 30)]);
    }
    return found;
}"""


def wait(page, condition):
    """Until a condition of the page holds. (The browser's own way to wait needs eval, which the page forbids.)"""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def find(page, text):
    page.get_by_label("Your text").fill(text)
    page.get_by_role("button", name="Find keyphrases").click()
    wait(page, "document.getElementById('status').textContent.startsWith('Read ')")


def phrases(page, part="list"):
    return [text.strip() for text in page.locator(f"#{part} .phrase").all_inner_texts()]


def point(page, phrase):
    page.locator("#list .phrase").filter(has_text=phrase).first.focus()
    page.get_by_role("heading", name="Where the model looked").wait_for()


def shading(page):
    """The shaded pieces of the text, the darkest first."""
    script = "all => all.map(one => [Number(/look-(\\d+)/.exec(one.className)[1]), one.textContent])"
    return sorted(page.locator("#marked .look").evaluate_all(script), reverse=True)
