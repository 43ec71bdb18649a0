"""The three classes of requirement: obvious, public and tacit. What is tacit follows from the tacit share alone."""

import hashlib
import json
from functools import lru_cache
from importlib.resources import files

from decoevo_dspy.simulation.catalogue import KINDS
from decoevo_dspy.simulation.world import BY_KEY, cued


@lru_cache(maxsize=1)
def gold_shares() -> dict[str, float]:
    """Each requirement's share of the gold points, in absolute value, of all shipped questions."""
    text = files("decoevo_dspy.simulation").joinpath("questions.jsonl").read_text(encoding="utf-8")
    points = dict.fromkeys(BY_KEY, 0)
    for line in filter(None, text.splitlines()):
        for key in cued(json.loads(line)["question"]):
            points[key] += abs(BY_KEY[key].points)
    total = sum(points.values())
    return {key: value / total for key, value in points.items()}


def _rank(key: str) -> tuple[bool, bytes]:
    """What the public text does not list comes first; the rest in an order that nobody chose."""
    return BY_KEY[key].kind in KINDS, hashlib.blake2b(key.encode(), digest_size=8).digest()


@lru_cache(maxsize=64)
def tacit(share: float) -> frozenset[str]:
    """The tacit requirements: each in turn is taken when it brings their gold points nearer to the share."""
    chosen, held = set[str](), 0.0
    for key in sorted((r.key for r in BY_KEY.values() if not r.obvious), key=_rank):
        if abs(held + gold_shares()[key] - share) < abs(held - share):
            chosen.add(key)
            held += gold_shares()[key]
    return frozenset(chosen)


def class_of(key: str, share: float) -> str:
    """``obvious``, ``tacit`` or ``public``."""
    return "obvious" if BY_KEY[key].obvious else "tacit" if key in tacit(share) else "public"
