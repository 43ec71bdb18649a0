"""Counting tokens with a real tokenizer, offline: cl100k_base from the file that the litellm package carries."""

import base64
import importlib.util
import re
from functools import lru_cache
from pathlib import Path

import tiktoken

_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"  # the name that tiktoken gives its cached cl100k_base
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_LINE = re.compile(r"(?<=\n)(?=\S)")


@lru_cache(maxsize=1)
def encoding() -> tiktoken.Encoding:
    """The cl100k_base encoding, without network; litellm is located but not imported."""
    spec = importlib.util.find_spec("litellm")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "litellm_core_utils" / "tokenizers" / _FILE
        if path.is_file():
            pairs = (line.split() for line in path.read_bytes().splitlines() if line)
            ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
            return tiktoken.Encoding("cl100k_base_local", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})
    return tiktoken.get_encoding("cl100k_base")


@lru_cache(maxsize=65536)
def _count_line(line: str) -> int:
    return len(encoding().encode_ordinary(line))


@lru_cache(maxsize=8192)
def count(text: str) -> int:
    """Tokens of a text, counted line by line: exact, as no token spans a newline and a visible character after it."""
    return sum(map(_count_line, _LINE.split(text)))


def pieces(text: str) -> list[str]:
    """The text cut into its tokens; a token that is no complete character shows as U+FFFD."""
    codec = encoding()
    return [codec.decode([token]) for token in codec.encode_ordinary(text)]


def truncate(text: str, limit: int) -> tuple[str, bool]:
    """The first ``limit`` tokens of a text, and whether anything was cut."""
    if len(text.encode("utf-8", "replace")) <= limit or count(text) <= limit:
        return text, False
    codec = encoding()
    return codec.decode(codec.encode_ordinary(text)[:limit], errors="ignore"), True
