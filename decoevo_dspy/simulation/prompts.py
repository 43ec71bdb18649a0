"""Reading a chat request: which fields it asks for, what it gives, in which format the answer must come.

Understands DSPy's chat, JSON and XML adapters and plain chat. Fences win over markers: text between fence lines is
material, so markers inside it are no field borders.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

Style = Literal["chat", "json", "xml", "plain"]

_FIELD = re.compile(r"^\d+\. `([^`]+)` \((.*?)\)(?=:|\s*$)", re.MULTILINE)
_MARKER = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*$", re.MULTILINE)
_XML = re.compile(r"^</?(\w+)>[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"^===== .*? ([0-9a-f]{6}|[0-9a-f]{32}) \(material\) =====\n", re.MULTILINE)
_NOTE = re.compile(r"\{(\w+)\}[ \t]+# note: the value you produce (.*?)\"?$", re.MULTILINE)
_OBJECTIVE = "In adhering to this structure, your objective is:"
_TAIL = re.compile(r"\n\n(?:Respond with (?:the corresponding output fields|a JSON object)|Reply with ).*\Z", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Field:
    """One declared output field: its type as written in the prompt, and the note on admissible values."""

    name: str
    type: str = "str"
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Structure:
    """What a system message declares."""

    style: Style
    inputs: tuple[str, ...]
    outputs: tuple[Field, ...]
    instructions: str


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A request as the model understands it. ``demos``: earlier assistant turns; ``user``: the last user turn."""

    structure: Structure
    values: Mapping[str, str]
    demos: tuple[str, ...]
    user: str

    @property
    def outputs(self) -> tuple[Field, ...]:
        """The declared output fields; empty for plain chat."""
        return self.structure.outputs

    @property
    def output_names(self) -> frozenset[str]:
        """Names of the output fields."""
        return frozenset(field.name for field in self.structure.outputs)


def read_prompt(messages: Sequence[Mapping[str, Any]]) -> Prompt:
    """A request from its chat messages; the first user turn serves as system message when it declares the fields."""
    texts = [(str(m.get("role") or "user"), content_text(m.get("content"))) for m in messages]
    system = "\n\n".join(text for role, text in texts if role in ("system", "developer"))
    turns = [(role, text) for role, text in texts if role not in ("system", "developer")]
    user = next((text for role, text in reversed(turns) if role == "user"), system)
    structure = read_structure(system)
    demos = tuple(text for role, text in turns if role == "assistant")
    return Prompt(structure=structure, values=read_values(structure, user), demos=demos, user=user)


def content_text(content: Any) -> str:
    """A message's text: a string, or the text parts of a list of content blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = [p if isinstance(p, str) else str(p.get("text") or "") for p in content if isinstance(p, str | Mapping)]
        return "\n".join(part for part in parts if part)
    return "" if content is None else str(content)


@lru_cache(maxsize=2048)
def read_structure(system: str) -> Structure:
    """The fields, format and instructions that a DSPy system message declares; anything else is plain chat."""
    start, middle = system.find("Your input fields are:"), system.find("Your output fields are:")
    end = system.find("All interactions will be structured", middle)
    if middle < 0 or end < 0:
        return Structure(style="plain", inputs=(), outputs=(), instructions=system)
    objective = system.find(_OBJECTIVE, end)
    template = system[end:objective] if objective >= 0 else system[end:]
    notes = dict(_NOTE.findall(template))
    inputs = tuple(name for name, _ in _FIELD.findall(system[max(start, 0) : middle]))
    outputs = tuple(
        Field(name=name, type=kind, note=notes.get(name, "").replace('\\"', '"').removesuffix(","))
        for name, kind in _FIELD.findall(system[middle:end])
    )
    instructions = system[objective + len(_OBJECTIVE) :] if objective >= 0 else ""
    return Structure(style=_style(template), inputs=inputs, outputs=outputs, instructions=_dedent(instructions))


def _style(template: str) -> Style:
    if "Outputs will be a JSON object" in template:
        return "json"
    return "chat" if "[[ ## " in template else "xml"


def _dedent(text: str) -> str:
    lines = [line.removeprefix("        ") for line in text.split("\n")]
    return "\n".join(lines).strip()


def read_values(structure: Structure, user: str) -> dict[str, str]:
    """The input fields' values from a user message, in declared order, with fences taken off."""
    if not structure.inputs:
        return {}
    spans = fences(user)
    xml = structure.style == "xml"
    found: list[tuple[str, int, int]] = []
    known = set(structure.inputs)
    for match in (_XML if xml else _MARKER).finditer(user):
        name = match.group(1)
        if name not in known or any(a <= match.start() < b for a, b in spans):
            continue
        if match.group(0).startswith("</"):
            continue
        known.discard(name)
        found.append((name, match.start(), match.end()))
    borders = [start for _, start, _ in found[1:]] + [len(user)]
    values: dict[str, str] = {}
    for (name, _, start), end in zip(found, borders, strict=True):
        text = user[start:end].strip("\n")
        if end == len(user):
            text = _TAIL.sub("", text)
        if xml:
            text = text.rsplit(f"\n</{name}>", 1)[0].strip("\n")
        values[name] = unfence(text.strip())
    return values


def fences(text: str) -> list[tuple[int, int]]:
    """Spans of the outermost fences: from an opening line to the closing line with the same digest."""
    spans: list[tuple[int, int]] = []
    at = 0
    while match := _FENCE.search(text, at):
        closing = f"\n===== end {match.group(1)} ====="
        end = text.find(closing, match.end() - 1)
        if end < 0:
            at = match.end()
            continue
        at = end + len(closing)
        spans.append((match.start(), at))
    return spans


def plain_fences(text: str) -> str:
    """The text with the tag of every outermost fence replaced by a digest of what it encloses, without a key.

    Requests of two runs that differ in the key of their fences alone are the same request.
    """
    pieces, at = list[str](), 0
    for start, end in fences(text):
        head, tail = text.index("\n", start), text.rindex("\n", start, end)
        inside = text[head + 1 : tail]
        tag = hashlib.sha256(inside.encode("utf-8", "replace")).hexdigest()[:6]
        opening = re.sub(r"[0-9a-f]+ \(material\) =====$", f"{tag} (material) =====", text[start:head])
        pieces += [text[at:start], f"{opening}\n{inside}\n===== end {tag} ====="]
        at = end
    return "".join([*pieces, text[at:]])


def unfence(text: str) -> str:
    """The text with its outermost fence lines taken off."""
    spans = fences(text)
    if not spans:
        return text
    pieces, at = list[str](), 0
    for start, end in spans:
        pieces += [text[at:start], text[text.index("\n", start) + 1 : text.rindex("\n", start, end)]]
        at = end
    return "".join([*pieces, text[at:]])
