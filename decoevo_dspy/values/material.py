"""What is no text of a skill or a rubric, whatever frame it comes in: it was said instead of an answer. Pure.

Recognised at the start of a line, where models and gateways say such things; a line that quotes or forbids them passes.
"""

import re
from typing import Literal

Instead = Literal["refusal", "error text", "HTML page", "reasoning"]

_LEAD = re.compile(r"^[\s>*_#`\"'“”«»‘’•–—-]*(?:\d+[.)]\s*)?[\s*_`\"'“”«‘]*")

_CANNOT = (
    r"(?:can\s?not|can['’]?t|could\s?not|won['’]?t|will\s+not|(?:am|are|['’]m|['’]re)\s+(?:unable|not\s+able|not\s+allowed)"
    r"|must\s+(?:respectfully\s+)?(?:decline|refuse)|have\s+to\s+(?:decline|refuse)|decline|refuse)"
)
_DO = (
    r"(?:help|assist|comply|provide|fulfil|fulfill|create|generate|write|rewrite|produce|complete|continue|support|answer|"
    r"respond|discuss|engage|share|do\s+(?:that|this)|process|carry|participate|edit|propose)"
)
_REFUSAL = re.compile(
    rf"(?:(?:i\s*(?:['’]m|\s+am)\s+(?:(?:very|so|really|truly)\s+)?|we\s+are\s+)?(?:sorry|afraid)|apologies|i\s+apologi[sz]e)"
    rf"\b[^\n]{{0,60}}?\b(?:i|we)\s*{_CANNOT}"
    rf"|(?:unfortunately,?\s+)?(?:i|we)\s*{_CANNOT}\s+(?:to\s+)?(?:\w+\s+)?{_DO}\b"
    r"|as\s+an?\s+(?:ai|artificial\s+intelligence|large\s+language|language)\b(?:\s+\w+){0,2},?\s+i\b"
    r"|(?:很抱歉|抱歉|对不起|對不起)[，,。 ]*[^\n]{0,20}?(?:我|作为|無法|无法|不能)"
    r"|(?:我无法|我不能|我無法)(?:提供|回答|协助|帮助|满足|完成|生成)|作为(?:一个|一名)?(?:ai|人工智能|大?语言模型)"
    r"|lo\s+siento,?\s+(?:pero\s+)?no\s+puedo|je\s+suis\s+désolée?,?\s+(?:mais\s+)?je\s+ne\s+peux"
    r"|es\s+tut\s+mir\s+leid,?\s+(?:aber\s+)?(?:ich|das)\s+kann|desculpe,?\s+(?:mas\s+)?não\s+posso"
    r"|申し訳(?:ございません|ありません)|죄송(?:합니다|하지만)|извините,?\s+(?:но\s+)?я\s+не\s+могу",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"\{\s*\\?[\"'](?:error|detail|errors)\\?[\"']\s*:"
    r"|(?:http(?:/\d\S*)?\s+|error\s*(?:code)?:?\s*|status\s*(?:code)?:?\s*)?(?:400|401|403|404|408|413|429|5\d\d)"
    r"[\s:,-]+(?:bad\s+(?:request|gateway)|unauthori[sz]ed|forbidden|not\s+found|request\s+timeout|too\s+many\s+requests|"
    r"payload|internal\s+server\s+error|service\s+(?:temporarily\s+)?unavailable|gateway\s+time-?out|\{)"
    r"|error\s+code:\s*\d{3}|(?:internal\s+server\s+error|bad\s+gateway|service\s+(?:temporarily\s+)?unavailable|"
    r"gateway\s+time-?out|too\s+many\s+requests)[.!]?\s*$"
    r"|rate\s+limit\s+(?:reached|exceeded)\s+for|you\s+(?:have\s+)?exceeded\s+your\s+(?:current\s+)?(?:quota|rate)"
    r"|incorrect\s+api\s+key|invalid\s+api\s+key|this\s+model['’]s\s+maximum\s+context\s+length"
    r"|the\s+(?:model|server|engine)\s+is\s+(?:currently\s+)?overloaded|upstream\s+(?:connect|request)\s+(?:error|timeout)"
    r"|(?:the\s+)?response\s+was\s+filtered|(?:request|connection)\s+(?:timed\s+out|refused|error)[.!]?\s*$"
    r"|traceback\s+\(most\s+recent\s+call\s+last\)|(?:litellm|openai|anthropic|httpx|requests)\.[\w.]*(?:error|exception)\b",
    re.IGNORECASE,
)
_PAGE = re.compile(
    r"<(?:!doctype\s+html|html|head|body|script|style|title|meta|\?xml|center)\b|</(?:html|head|body)>"
    r"|just\s+a\s+moment\.\.\.\s*$|attention\s+required!\s+\|\s+cloudflare",
    re.IGNORECASE,
)
_CLOSED_PAGE = re.compile(r"</(?:html|body)\s*>", re.IGNORECASE)
_MARKER = re.compile(
    r"</?\s*(?:think(?:ing)?|thought|thoughts|reasoning|reflection|scratchpad|analysis|seed:think|antml:thinking)\s*>"
    r"|<\|[a-z_]*(?:think|thought|channel|message|im_start|im_end|eot_id|start_header|end_header|assistant|analysis)"
    r"[a-z_]*\|>|\[/?think(?:ing)?\]|[◁<]/?think[▷>]|<unused\d+>|<start_of_turn>|<end_of_turn>",
    re.IGNORECASE,
)
_THOUGHT = re.compile(
    r"(?:okay|ok|alright|hmm+|wait)[,.!… ]+"
    r"(?:so\b|let\b|let['’]s|the\s+user|i\s+(?:need|should|have|will)|we\s+need|first)"
    r"|let\s+me\s+(?:think|analy[sz]e|first|start|look|see|check|re-?read|consider)\b"
    r"|(?:so\s+)?the\s+user\s+(?:wants|asks|asked|is\s+asking|has\s+asked|needs)\s+me\b"
    r"|(?:my\s+)?(?:thought|thinking|reasoning)\s+process\s*:|(?:first,?\s+)?i\s+need\s+to\s+(?:figure\s+out|think\s+about)\b",
    re.IGNORECASE,
)


def said_instead(text: str) -> Instead | None:
    """What stands in the place of an answer's text; ``None`` for a text that may be one.

    >>> said_instead("- I'm sorry, but I can't help with that."), said_instead("<think>hm</think> Be brief.")
    ('refusal', 'reasoning')
    >>> said_instead("- Never answer: I'm sorry, but I can't help with that.") is None
    True
    """
    if _MARKER.search(text):
        return "reasoning"
    if _CLOSED_PAGE.search(text):
        return "HTML page"
    kinds: list[tuple[Instead, re.Pattern[str]]] = [
        ("refusal", _REFUSAL),
        ("error text", _ERROR),
        ("HTML page", _PAGE),
        ("reasoning", _THOUGHT),
    ]
    for line in text.splitlines():
        start = _LEAD.sub("", line, count=1)
        for kind, pattern in kinds:
            if pattern.match(start):
                return kind
    return None
