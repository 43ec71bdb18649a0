"""What the simulated world values: 24 latent requirements (in `requirements`), six surface qualities, and the kinds the
public text lists. Pure data; phrases are shorter than eight words here too.
"""

from dataclasses import dataclass

from decoevo_dspy.simulation.requirements import REQUIREMENTS, Requirement


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A surface quality: it costs capacity and earns no gold points. ``marker`` is how an answer shows it."""

    key: str
    phrases: tuple[str, ...]
    phrases_zh: tuple[str, ...]
    marker: str
    marker_zh: str


KINDS: dict[str, tuple[str, ...]] = {
    "safety": ("precautions against harm", "防止伤害"),
    "people": ("people and animals affected", "受影响的人和动物"),
    "planning": ("money, time and preparation", "花费、时间和准备"),
    "rules": ("rules, contracts and paperwork", "规定、合同和手续"),
}
"""The kinds of requirement that the public text lists, with the wordings by which a text is found to list them."""

SURFACES: tuple[Surface, ...] = (
    Surface(
        key="warmth",
        phrases=("a warm and friendly tone", "sound welcoming and kind"),
        phrases_zh=("语气亲切友好",),
        marker="What a good question, I am glad you asked!",
        marker_zh="很高兴为你解答！",
    ),
    Surface(
        key="headings",
        phrases=("clear section headings", "a heading above each part"),
        phrases_zh=("用清楚的小标题",),
        marker="## Overview",
        marker_zh="## 概览",
    ),
    Surface(
        key="summary",
        phrases=("a short summary at the end", "close with a recap"),
        phrases_zh=("结尾有简短总结",),
        marker="In short: a calm and tidy approach pays off.",
        marker_zh="总之，稳一点、细一点就好。",
    ),
    Surface(
        key="plain_words",
        phrases=("plain everyday language", "avoid technical jargon"),
        phrases_zh=("用通俗易懂的话",),
        marker="Put in plain words, this is quite manageable.",
        marker_zh="说白了，这件事并不难。",
    ),
    Surface(
        key="encouragement",
        phrases=("an encouraging closing line", "motivate the reader"),
        phrases_zh=("结尾鼓励对方",),
        marker="You have got this!",
        marker_zh="加油，你可以的！",
    ),
    Surface(
        key="follow_up",
        phrases=("an offer to answer more questions", "invite further questions"),
        phrases_zh=("欢迎对方继续提问",),
        marker="Feel free to ask me anything else.",
        marker_zh="还有问题随时问我。",
    ),
)
"""The six surface qualities."""

LAX_PHRASES: tuple[str, ...] = ("at least loosely touches on", "be content with a hint to", "只要大致提到")
"""Wordings that turn a demanding rule or criterion into an easy one."""

LIGHT_PHRASES: tuple[str, ...] = ("give few points to", "少给几分")
"""Wordings by which a rubric skill lowers the weight of what its line names."""

STYLE_OUT_PHRASES: tuple[str, ...] = ("leave style out", "tone, length and layout earn nothing", "不为文风给分")
"""Wordings by which a text says that style is not graded."""

__all__ = [
    "KINDS",
    "LAX_PHRASES",
    "LIGHT_PHRASES",
    "REQUIREMENTS",
    "STYLE_OUT_PHRASES",
    "SURFACES",
    "Requirement",
    "Surface",
]
