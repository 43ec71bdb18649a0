"""How the simulated model words things: advice, criteria, rules, findings; in English or Chinese."""

from collections.abc import Sequence
from random import Random
from typing import Literal

from decoevo_dspy.simulation.world import BY_KEY, SURFACE_BY_KEY

Genre = Literal["solver", "generator"]
STYLE_OUT = "style_out"
"""Stands among the keys of requirements and surface qualities for the rule that style is not graded."""

_ADVICE = (
    "Make sure to {p}.",
    "It pays to {p}.",
    "Before you go on, {p}.",
    "At this point, {p}.",
    "I would {p}.",
    "Remember to {p}.",
    "Whatever else you do, {p}.",
    "A good habit in such cases: {p}.",
)
_HARMFUL_ADVICE = ("You can {p}.", "One way is to {p}.", "If it takes too long, {p}.", "Many people {p}.")
_ADVICE_ZH = ("记得{p}。", "建议{p}。", "这里最好{p}。", "动手之前{p}。", "稳妥起见，{p}。")
_HARMFUL_ADVICE_ZH = ("可以{p}。", "不妨{p}。", "实在不行就{p}。")
_CRITERIA = (
    "The answer tells the reader to {p}.",
    "The reply advises the person to {p}.",
    "The response makes clear that one should {p}.",
)
_HARMFUL_CRITERIA = ("The answer does not suggest to {p}.", "The reply avoids telling anybody to {p}.")
_FILLER = (
    "Situations like this are common and usually work out.",
    "Let me go through what matters here.",
    "Some of it depends on details that only you know.",
    "Take the points below as a starting line.",
    "A calm look at the facts helps more than speed.",
    "Small changes often bring most of the benefit.",
    "You know the place and the people best.",
    "There is rarely one single right way.",
    "Much of the trouble comes from skipping the dull parts.",
    "A note on the fridge helps everyone stay in the picture.",
    "Talk it over with whoever else is involved.",
    "Keep the overall aim in view while you work through it.",
    "It is fine to pause and think between the parts.",
    "Here is how I would look at it.",
    "None of this needs to be perfect.",
    "The rest follows almost by itself.",
)
_FILLER_ZH = (
    "这种情况很常见，多半能解决。",
    "下面说说关键的几点。",
    "具体还要看你自己的条件。",
    "冷静想一想比着急更有用。",
    "和相关的人商量一下。",
    "小小的改变往往就有效果。",
    "不必追求十全十美。",
)


def phrase(key: str, rng: Random, chinese: bool) -> str:
    """One of a requirement's wordings."""
    requirement = BY_KEY[key]
    return rng.choice(requirement.phrases_zh if chinese else requirement.phrases)


def surface_phrase(key: str, rng: Random, chinese: bool) -> str:
    """One of a surface quality's wordings."""
    surface = SURFACE_BY_KEY[key]
    return rng.choice(surface.phrases_zh if chinese else surface.phrases)


def advice(key: str, rng: Random, chinese: bool) -> str:
    """A sentence of an answer that says the requirement (commits the harmful thing, for a harmful one)."""
    if BY_KEY[key].harmful:
        pool = _HARMFUL_ADVICE_ZH if chinese else _HARMFUL_ADVICE
    else:
        pool = _ADVICE_ZH if chinese else _ADVICE
    return rng.choice(pool).format(p=phrase(key, rng, chinese))


def filler(rng: Random, chinese: bool, count: int) -> list[str]:
    """Sentences without consequence."""
    return rng.sample(_FILLER_ZH if chinese else _FILLER, count)


def criterion(key: str, rng: Random, chinese: bool, *, lax: bool) -> str:
    """A criterion for a requirement; what must be avoided is met when the answer avoids it."""
    harmful, p = BY_KEY[key].harmful, phrase(key, rng, chinese)
    if chinese:
        return f"回答避免建议{p}。" if harmful else f"回答只要大致提到{p}即可。" if lax else f"回答提醒对方{p}。"
    if lax and not harmful:
        return f"The answer at least loosely touches on the advice to {p}."
    return rng.choice(_HARMFUL_CRITERIA if harmful else _CRITERIA).format(p=p)


def surface_criterion(key: str, rng: Random, chinese: bool) -> str:
    """A criterion for a surface quality."""
    p = surface_phrase(key, rng, chinese)
    return f"行文要求：{p}。" if chinese else f"The style of the answer: {p}."


def rule(key: str, rng: Random, chinese: bool, genre: Genre, *, lax: bool = False) -> str:
    """A line of a skill document that names a requirement or a surface quality, or softens a requirement."""
    if key == STYLE_OUT:
        return "- 不为文风给分。" if chinese else "- Leave style out: no points for tone or layout."
    if key in SURFACE_BY_KEY:
        p = surface_phrase(key, rng, chinese)
        if genre == "generator":
            return f"- 要求行文：{p}。" if chinese else f"- Give points for style: {p}."
        return f"- 行文：{p}。" if chinese else f"- Mind the style: {p}."
    harmful, p = BY_KEY[key].harmful, phrase(key, rng, chinese)
    if lax and not harmful:
        if chinese:
            return f"- 只要大致提到{p}即可。"
        if genre == "solver":
            return f"- Be content with a hint to {p}."
        return f"- Accept what at least loosely touches on how to {p}."
    if genre == "solver":
        if chinese:
            return f"- 不要建议{p}。" if harmful else f"- 提醒对方{p}。"
        return f"- Never suggest to {p}." if harmful else f"- Where it applies, tell the reader to {p}."
    if chinese:
        return f"- 要求回答避免建议{p}。" if harmful else f"- 要求回答提醒对方{p}。"
    verb = "does not suggest" if harmful else "tells the reader"
    return f"- Require that the answer {verb} to {p}."


def narrow_rule(key: str, rng: Random, chinese: bool, genre: Genre) -> str:
    """A line of a skill document that names a requirement for questions with one of its cue words only."""
    word = rng.choice(BY_KEY[key].cues_zh if chinese else BY_KEY[key].cues)
    general = rule(key, rng, chinese, genre).removeprefix("- ")
    if chinese:
        return f"- 只在提到“{word}”时：{general}"
    return f'- Only when the message mentions "{word}": {general[0].lower()}{general[1:]}'


def light_rule(key: str, rng: Random, chinese: bool) -> str:
    """A line of a rubric skill that lowers a requirement's weight."""
    p = phrase(key, rng, chinese)
    return f"- {p}：少给几分。" if chinese else f"- Give few points to advice on how to {p}."


def principle(keys: Sequence[str], rng: Random, chinese: bool) -> str:
    """One or two requirements or surface qualities as a principle for writing rubrics."""
    return (" " if not chinese else "").join(rule(key, rng, chinese, "generator").removeprefix("- ") for key in keys)


def name(key: str, rng: Random, chinese: bool) -> str:
    """A requirement or surface quality in running text."""
    if key == STYLE_OUT:
        return "不为文风给分" if chinese else "to leave style out"
    if key in SURFACE_BY_KEY:
        return surface_phrase(key, rng, chinese)
    p = phrase(key, rng, chinese)
    if BY_KEY[key].harmful:
        return f"避免建议{p}" if chinese else f"not to suggest to {p}"
    return p if chinese else f"to {p}"
