"""A script that finds texts which cannot be read well."""

CONTRAST = """
() => {
  const channel = (x) => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
  const light = (c) => {
    const [r, g, b] = c.map((x) => channel(x / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const under = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest("script, style")) continue;
    const style = getComputedStyle(e);
    const ink = light(rgb(e.closest("svg") ? style.fill : style.color).slice(0, 3));
    const paper = light(under(e));
    const ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
    if (ratio < 4.5) poor.push(`${e.tagName} ${e.className} ${ratio.toFixed(2)} ${e.textContent}`);
  }
  return poor;
}
"""
"""Texts whose contrast to what is under them is below 4.5, WCAG's AA."""
