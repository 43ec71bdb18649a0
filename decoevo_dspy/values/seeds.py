"""Derived randomness: one generator per purpose, from (seed, purpose, step, id). Pure."""

import hashlib
import random


def derive(seed: int, *purpose: object) -> int:
    """A 31-bit non-negative integer that depends on the run's seed and every part of the purpose.

    >>> derive(0, "solver", "q1", 0) == derive(0, "solver", "q1", 0) != derive(0, "solver", "q1", 1)
    True
    """
    text = "\x1f".join([str(seed), *map(str, purpose)])
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:4], "big") >> 1


def generator(seed: int, *purpose: object) -> random.Random:
    """A seeded generator for one purpose; independent of every other and of call order."""
    return random.Random(derive(seed, *purpose))
