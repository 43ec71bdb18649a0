"""Text as a reader sees it: what looks alike becomes the same. For comparing only; nobody reads the outcome. Pure."""

import re
import unicodedata

LOOK_ALIKES: dict[str, str] = {
    "a": "ɑΑαλАаᎪᗅᴀꓮ",
    "b": "ƄƅʙΒβВЬвᏏᏴᑲᖯᗷꓐꞴ",
    "c": "ςСсᏟᴄⲤⲥꓚꮯ",
    "d": "ĐđԁᎠᏧᑯᗞᗪᴅꓒꓓ",
    "e": "ɛΕεЄЕезєҽᎬᴇꓰꬲ",
    "f": "ϜքᖴẝꓝꜰꞘꞙꬵ",
    "g": "ƍǥɡɢԌցᏀᏳᶃꓖ",
    "h": "ĦħʜΗНнһհᎻᏂᕼⲎꓧ",
    "i": "ıƖɩɪιіӏᎥꙇꭵ",
    "j": "ͿϳЈјᎫᒍᴊꓙꞲ",
    "k": "ΚκКкᏦᛕᴋⲔꓗ",
    "l": "ŁłǀʟΙІӀᏞᒪᛁⲒⳐꓡꓲ",
    "m": "ΜϺМмᎷᗰᛖᴍⲘꓟ",
    "n": "ɴΝηпոռⲚꓠ",
    "o": "ØøΟοσОоՕօჿᴏᴑⲞⲟꓳꬽ",
    "p": "ΡρРрᏢᑭᴘⲢⲣꓑ",
    "q": "ԛգզ",
    "r": "ƦЯгяᎡᏒᖇᴦⲅꓣꭇꭈꮁ",
    "s": "ƽЅѕՏᏕᏚꓢꜱꮪ",
    "t": "ŦŧΤτТтᎢᴛⲦꓔ",
    "u": "ʋμυиՍսᑌᴜꓴꞟꭎꭒ",
    "v": "νѴѵᏙᐯᴠꓦꮩ",
    "w": "ɯωшѡԜԝաᎳᏔᴡꓪꮃ",
    "x": "ΧχХхᕁᕽᚷⲬꓫꞳ",
    "y": "ɣʏΥγУуҮүყᎩᎽᶌỿⲨꓬꭚ",
    "z": "ΖζᏃᴢꓜꮓ",
}
"""Letters of other scripts by the Latin one they look like: Unicode's confusables (UTS 39), those of living alphabets
that NFKC does not fold by itself, and some that are used so in practice."""

_FOLD = str.maketrans({other: latin for latin, others in LOOK_ALIKES.items() for other in others})
_WITHIN_LATIN = str.maketrans({"l": "i", "1": "i", "0": "o", "m": "rn", "w": "vv"})
"""What looks alike within Latin: l, I and 1; O and 0; m and rn; w and vv."""

_APOSTROPHES = re.compile(r"(?<=\w)['’‘ʼ＇`´](?=\w)")
_LEET = str.maketrans({"3": "e", "4": "a", "5": "s", "7": "t"})
_MIXED_WORD = re.compile(r"\b(?=\w*[a-z])(?=\w*[3457])\w+\b")


def skeletons(text: str) -> tuple[str, ...]:
    """The text's words as they look, one space between, in one or two readings.

    Case, width, accents, combining and invisible characters, punctuation and look-alike letters make no difference.
    A capital of another script may look like one Latin letter and its small form like another (Η, η); such a text has
    a reading by its case-folded letters too.

    >>> skeletons("Be  BRIEF, always!") == skeletons("be br\\u0456\\u200bef\\nalw\\u00e4ys")
    True
    """
    clean = text.encode("utf-8", "replace").decode("utf-8")
    bare = _bare(clean)
    readings = (_words(bare.casefold().translate(_FOLD)), _words(bare.translate(_FOLD).casefold()))
    return tuple(dict.fromkeys(readings))


def _bare(text: str) -> str:
    """Compatible characters as one, without marks and what cannot be seen."""
    if text.isascii():
        return text
    split = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text))
    return unicodedata.normalize("NFC", "".join(ch for ch in split if unicodedata.category(ch) not in _UNSEEN))


_UNSEEN = ("Mn", "Me", "Cf")


def _words(text: str) -> str:
    text = _MIXED_WORD.sub(lambda word: word[0].translate(_LEET), _APOSTROPHES.sub("", text))
    return re.sub(r"[\W_]+", " ", text.translate(_WITHIN_LATIN)).strip()
