"""How figures and foreign text are written: real minus signs, fixed decimals, and characters that cannot act."""

import unicodedata
from collections.abc import Sequence

_INVISIBLE = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}


def number(value: float | None, decimals: int = 1) -> str:
    """A figure, or an en dash where there is none.

    >>> number(-1.25), number(None), number(12345.6, 0)
    ('−1.2', '–', '12,346')
    """
    return "–" if value is None else f"{value:,.{decimals}f}".replace("-", "−")


def signed(value: float | None, decimals: int = 2) -> str:
    """A difference with its sign.

    >>> signed(0.5), signed(-0.001), signed(None)
    ('+0.50', '0.00', '–')
    """
    if value is None:
        return "–"
    text = f"{value:+,.{decimals}f}"
    return (text[1:] if float(text.replace(",", "")) == 0 else text).replace("-", "−")


def interval(bounds: Sequence[float] | None, decimals: int = 2) -> str:
    """Both bounds in brackets.

    >>> interval((-0.5, 1))
    '[−0.50, +1.00]'
    """
    return "–" if bounds is None else f"[{signed(bounds[0], decimals)}, {signed(bounds[1], decimals)}]"


def p_value(p: float | None) -> str:
    """A p-value, never as 0.

    >>> p_value(0.00001), p_value(0.04567), p_value(None)
    ('< 0.001', '0.046', '–')
    """
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def ratio(value: float | None) -> str:
    """A multiple.

    >>> ratio(1.888)
    '1.89×'
    """
    return "–" if value is None else f"{value:.2f}×"


def span(low: float, high: float) -> str:
    """A range as the paper gives it.

    >>> span(0.4, 0.7), span(2.0, 2.0), span(-1.5, -1.0)
    ('+0.4 … +0.7', '+2.0', '−1.5 … −1.0')
    """
    return signed(low, 1) if low == high else f"{signed(low, 1)} … {signed(high, 1)}"


def listed(names: Sequence[str], joint: str = "and") -> str:
    """Names as English lists them.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return f"{', '.join(names[:-1])} {joint} {names[-1]}" if len(names) > 1 else "".join(names)


def plural(count: float, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "seed"), plural(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{count:,.0f} {noun}{'' if count == 1 else 's'}"


def printable(text: object) -> str:
    r"""Text in which nothing acts: control, bidi-override, surrogate and unassigned-forever characters as escapes.

    >>> printable("a\x1b[31m\tb\n\ud800")
    'a\\x1b[31m\tb\n\\ud800'
    """
    return "".join(_shown(character) for character in str(text).replace("\r\n", "\n"))


def _shown(character: str) -> str:
    if character in "\n\t":
        return character
    code = ord(character)
    bad = unicodedata.category(character) in ("Cc", "Cs") or code in _INVISIBLE
    if bad or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF or code in (0x2028, 0x2029):
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return character
