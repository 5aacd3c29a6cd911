"""Formulas as MathML: drawn by the browser, without scripts or fonts from elsewhere."""

import html
import logging
import re

from latex2mathml.converter import convert

LOG = logging.getLogger("mkdocs.plugins.openset")
_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>',
    re.DOTALL,
)
# What latex2mathml does not know, or draws badly, in words it knows.
_SPELLED = {r"\tfrac": r"\frac", r"\dfrac": r"\frac"}
_SIZES = re.compile(r"\\[bB]ig{1,2}([lr])(?![a-z])")
_SIDES = {"l": r"\left", "r": r"\right"}


def mathml(tex: str, *, block: bool = False) -> str:
    """Return a formula as MathML."""
    for word, known in _SPELLED.items():
        tex = tex.replace(word, known)
    if r" &" in tex and r"\begin" not in tex:  # lines, as Sphinx takes them
        tex = rf"\begin{{align*}}{tex}\end{{align*}}"
    tex = _SIZES.sub(lambda found: _SIDES[found[1]], tex)
    return _overlined(convert(tex.strip(), display="block" if block else "inline"))


_BAR = '<mo accent="true">&#x02015;</mo></mover>'


def _overlined(drawn: str) -> str:
    """Let the style sheet draw bars over formulas: browsers do not stretch them."""
    while _BAR in drawn:
        before, _, after = drawn.partition(_BAR)
        start = before.rfind("<mover>")
        while before.count("<mover", start) <= before.count("</mover>", start):
            start = before.rfind("<mover>", 0, start)
        base = before[start:].removeprefix("<mover>")
        drawn = f'{before[:start]}<mrow class="overlined">{base}</mrow>{after}'
    return drawn


def drawn(page: str, name: str) -> str:
    """Replace the formulas of a page of HTML."""

    def formula(found: re.Match[str]) -> str:
        tex = html.unescape(found["tex"])
        try:
            return mathml(tex, block=found["tag"] == "div")
        except Exception as error:  # of the converter: any kind
            LOG.warning("%s: formula %s: %r", name, tex, error)
            return found[0]

    return _FORMULA.sub(formula, page)
