"""What must never be written or printed: which options may be shown, and how a secret's text is masked.

An option of an LM is shown only when its name is on a list of sampling parameters; every other one is somebody's
account, address or private setting. The values of those, of environment variables that look like keys, and what a URL
carries beside its address are known here as long as the process lives, and `mask` takes them out of any text, also
where the text holds them JSON-escaped, URL-encoded, as HTML entities, in base64 or in hex.
"""

import base64
import contextlib
import html
import html.entities
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

MASK = "…"

SHOWN = frozenset(
    """
    temperature dynamic_temperature top_p top_k top_a min_p typical_p tfs_z epsilon_cutoff eta_cutoff
    mirostat mirostat_eta mirostat_tau
    max_tokens max_completion_tokens max_output_tokens max_new_tokens min_tokens num_predict num_ctx num_keep
    truncate_prompt_tokens
    seed n best_of stop stop_sequences stop_token_ids include_stop_str_in_output ignore_eos skip_special_tokens
    presence_penalty frequency_penalty repetition_penalty repeat_penalty repeat_last_n length_penalty
    no_repeat_ngram_size use_beam_search early_stopping
    logprobs top_logprobs prompt_logprobs logit_bias
    response_format format guided_json guided_regex guided_choice guided_grammar
    reasoning_effort thinking think enable_thinking thinking_budget reasoning_budget include_reasoning
    verbosity service_tier tool_choice parallel_tool_calls stream drop_params
    """.split()  # noqa: SIM905 - read as a table
)
"""Options whose values are written: they shape a sample and tell nothing about who asks."""

_NESTED = ("extra_body", "chat_template_kwargs", "options")
"""Options that only carry others; shown when everything in them is a switch or number of `SHOWN`."""

_ACCOUNT = re.compile(
    r"(?:^|[_\-])(?:api_?key|key|token|secret|password|passwd|credentials?|auth|authorization|cookie|headers?|"
    r"session|organization|project|tenant|client_id|username|endpoint|timeout|retries)(?:$|[_\-])"
    r"|^(?:aws|azure|vertex|watsonx|wx|oci|sagemaker|databricks|bedrock)_",
    re.IGNORECASE,
)
_CREDENTIAL = re.compile(
    r"key|token|secret|passw|pwd|credential|auth|cookie|headers?$|session|signature|sig$|private", re.IGNORECASE
)
_PUBLIC = re.compile(r"region|location|version|provider$|^model|engine$|effort|referer|title", re.IGNORECASE)
"""Names of hidden options whose values everybody knows: not written as such, but no reason to mask a word either."""

_VARIABLE = re.compile(
    r"(?:^|_)(?:\w*KEY|KEYS|TOKEN|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|PASS|CREDENTIALS?|AUTH|COOKIE|DSN)(?:$|_)",
    re.IGNORECASE,
)
_NAMED_LIKE_A_KEY = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)")
_NO_SECRETS = frozenset({"none", "null", "empty", "dummy", "true", "false", "local", "ollama", "unused"})

KEY_FREE = frozenset({"rollout_id", "cache", "api_base", "base_url"})


def shown(name: str, value: Any) -> bool:
    """Whether an option may be written with its value."""
    if name in _NESTED and isinstance(value, Mapping):
        return all(_switch(str(key), part) for key, part in value.items())
    return name in SHOWN


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, Mapping):
        return name in _NESTED and all(_switch(str(key), part) for key, part in value.items())
    return name in SHOWN and isinstance(value, bool | int | float | type(None))


def key_free(name: str) -> bool:
    """Whether an option says by whom or where is asked and not what: a renewed key, a moved endpoint, a timeout.

    >>> key_free("aws_session_token"), key_free("extra_body"), key_free("temperature")
    (True, False, False)
    """
    return name in KEY_FREE or (name not in SHOWN and bool(_ACCOUNT.search(name)))


def variable_shown(name: str) -> str:
    """The name of an environment variable, unless somebody put the key itself in its place.

    >>> variable_shown("MY_API_KEY"), variable_shown("hf_abcdefgh12345678")
    ('MY_API_KEY', '…')
    """
    return name if name in os.environ or _NAMED_LIKE_A_KEY.fullmatch(name) else MASK


class Secrets:
    """The secret texts that this process knows of. ``learn…`` adds some, `mask` takes them out of a text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, None] = {}

    def learn(self, options: Mapping[str, Any]) -> None:
        """Remember the values of an LM's options that are not shown."""
        self._add(text for name, value in options.items() for text, sure in hidden_texts(name, value) if sure)

    def learn_value(self, value: str) -> None:
        """Remember one secret, such as the value of a variable that a config names."""
        self._add(_parts(value))

    def learn_environment(self) -> None:
        """Remember the values of the environment variables that look like keys, and the passwords in URLs."""
        found: list[str] = []
        for name, value in list(os.environ.items()):
            if _VARIABLE.search(name) and not os.path.exists(value):
                found += [part for part in _parts(value) if _random(part)]
            elif "://" in value and "@" in value:
                found += [part for part in _url_parts(value) if _random(part)]
        self._add(found)

    def _add(self, texts: Iterable[str]) -> None:
        new = [text for text in texts if text not in self._known]
        if new:
            with self._lock:
                known = {**self._known, **dict.fromkeys(new)}
                self._known = dict(sorted(known.items(), key=lambda item: -len(item[0])))

    def mask(self, text: str, more: Iterable[str] = ()) -> str:
        """The text with every known secret, and every text of ``more``, replaced by ``…``."""
        wanted = [*more, *self._known]
        if not wanted or not text:
            return text
        forms = list(_forms(text))
        for secret in wanted:
            if _occurs(secret, forms):
                text = _pattern(secret).sub(MASK, text)
        return text

    def masked(self, value: Any) -> Any:
        """A JSON value with every text in it masked."""
        if not self._known:
            return value
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, Mapping):
            return {self.mask(k) if isinstance(k, str) else k: self.masked(part) for k, part in value.items()}
        return [self.masked(part) for part in value] if isinstance(value, list | tuple) else value


KNOWN = Secrets()
"""What the LMs, config and environment of this process have told."""

mask, masked = KNOWN.mask, KNOWN.masked


def hidden_texts(name: str, value: Any, inside: str = "") -> Iterator[tuple[str, bool]]:
    """The texts in the value of an option that is not shown, each with whether it must not stand in *any* text.

    The others are masked only where an endpoint complains: ``us-east-1`` is no reason to change a model's answer.
    """
    if (name in SHOWN and not inside) or value is None or isinstance(value, bool):
        return
    secret = bool(_CREDENTIAL.search(name) or (inside and _CREDENTIAL.search(inside)))
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from hidden_texts(str(key), part, name if secret else inside or "…")
        return
    if isinstance(value, list | tuple | set):
        for part in value:
            yield from hidden_texts(name, part, inside or "…")
        return
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, int | float) and not secret:
        return
    if not isinstance(value, str | int | float):
        return
    if "://" in str(value) and not secret:
        yield from ((part, len(part) >= 6) for part in _url_parts(str(value)))
        return
    if _PUBLIC.search(name) and not secret:
        return
    for part in _parts(str(value)):
        plain_word = part.isalpha() and part.islower() and len(part) < 12
        yield part, len(part) >= (6 if secret else 12) and not plain_word


def _random(text: str) -> bool:
    """Whether a text looks drawn rather than written: no plain word, no number of a few digits."""
    return len(text) >= 8 and not (text.isalpha() and text.islower() and len(text) < 20)


def _parts(value: str) -> Iterator[str]:
    """A secret, and what of it may be met alone: behind ``Bearer``, in a JSON document, on a line of a key file."""
    found = [value.strip()]
    scheme, _, rest = value.strip().partition(" ")
    if scheme.lower() in ("bearer", "basic", "token", "apikey", "negotiate") and rest:
        found.append(rest)
        if scheme.lower() == "basic":
            with contextlib.suppress(ValueError):
                user, _, password = base64.b64decode(rest).decode("utf-8").partition(":")
                found += [password, user]
    if value.lstrip().startswith("{"):
        with contextlib.suppress(ValueError, AttributeError):
            found += [text for key, part in json.loads(value).items() for text, sure in hidden_texts(key, part) if sure]
    found += [line for line in re.split(r"[\r\n]+|\\n", value) if len(line) >= 16 and not line.startswith("-----")]
    if "://" in value:
        found += _url_parts(value)
    for part in dict.fromkeys(found):
        if len(part) >= 4 and part.lower() not in _NO_SECRETS:
            yield part


def _url_parts(url: str) -> Iterator[str]:
    """User, password, query and fragment of a URL, as they stand and decoded."""
    try:
        parts = urlsplit(url)
        found = [parts.username, parts.password, parts.query, parts.fragment, *(v for _, v in parse_qsl(parts.query))]
    except ValueError:
        return
    for part in found:
        for text in dict.fromkeys((part or "", unquote(part or ""))):
            if len(text) >= 4 and text.lower() not in _NO_SECRETS:
                yield text


_URL = re.compile(
    r"(\b[a-z][a-z0-9+.\-]*:(?:\\*/){2})(?:[^\s/@\"'<>\\]+@)?([^\s?#\"'<>()]*)([?#][^\s\"'<>)\]]*)?", re.IGNORECASE
)
_TYPICAL = re.compile(
    r"(\bsk-|\bhf_|\bgh[pousr]_|\bgsk_|\bxai-|\bAIza|\bAKIA|\b(?:Bearer|Basic)\s+|"
    r"\b(?:api[_-]?key|access[_-]?token|client[_-]?secret|password)\\*[\"']?\s*[:=]\s*\\*[\"']?)[\w\-.+/=~]{6,}",
    re.IGNORECASE,
)


def mask_error(text: str, options: Mapping[str, Any]) -> str:
    """An endpoint's own words without secrets: those that are known, ``options``' own, and what looks like one."""
    own = [part for name, value in options.items() for part, _ in hidden_texts(name, value)]
    text = KNOWN.mask(text, sorted(dict.fromkeys(own), key=len, reverse=True))
    text = _URL.sub(lambda m: f"{m[1]}{m[2]}{m[3][0] + MASK if m[3] else ''}", text)
    return _TYPICAL.sub(rf"\1{MASK}", text)


_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"'/\\]))")


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else match[3]


def _forms(text: str) -> Iterator[str]:
    """The text as it stands, and decoded as often as there is something to decode."""
    yield text
    for _ in range(4):
        if not any(mark in text for mark in "\\%&"):
            return
        decoded = _ESCAPE.sub(_unescaped, unquote(html.unescape(text), errors="replace"))
        if decoded == text:
            return
        text = decoded
        yield text


def _occurs(secret: str, forms: Iterable[str]) -> bool:
    """Whether it is worth the slow search; a text with spaces or beyond ASCII is not looked up but searched for."""
    needles = _needles(secret)
    if not secret.isascii() or any(ch.isspace() or not ch.isprintable() for ch in secret):
        return True
    return any(needle in form for form in forms for needle in needles)


@lru_cache(maxsize=1024)
def _needles(secret: str) -> tuple[str, ...]:
    """The secret, and what of its base64 (wherever in a longer text it began) and hex forms is always the same."""
    data = secret.encode("utf-8", "replace")
    found = [secret]
    if len(data) >= 8:
        for offset in range(3):
            coded = base64.b64encode(b"\0" * offset + data).decode()
            skip = (0, 2, 3)[offset]
            whole = (offset + len(data)) // 3 * 4
            found += [coded[(skip + 3) // 4 * 4 if offset else 0 : whole]]
        found += [needle.translate(_URLSAFE) for needle in found[1:]]
        found += [data.hex(), data.hex().upper()]
    return tuple(dict.fromkeys(found))


_URLSAFE = str.maketrans("+/", "-_")


@lru_cache(maxsize=1024)
def _pattern(secret: str) -> re.Pattern[str]:
    plain, *coded = ("".join(map(_any_form, needle)) for needle in _needles(secret))
    around = r"[A-Za-z0-9+/_\-]{0,4}"
    return re.compile("|".join([plain, *(f"{around}{needle}{around}={{0,2}}" for needle in coded)]))


_NAMES: dict[str, list[str]] = {}
for _name, _char in html.entities.html5.items():
    if len(_char) == 1 and _name.endswith(";"):
        _NAMES.setdefault(_char, []).append(_name)


@lru_cache(maxsize=4096)
def _any_form(ch: str) -> str:
    """A pattern for one character as it stands or escaped: ``%2F``, ``\\u002f``, ``\\/``, ``&#47;``, ``&sol;``."""
    code, entity = ord(ch), r"&(?:amp;)*"
    units = ch.encode("utf-16-be", "replace")
    percent = "".join(f"%(?:25)*{byte:02x}" for byte in ch.encode("utf-8", "replace"))
    escaped = "".join(rf"\\+u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    forms = [re.escape(ch), f"(?i:{percent}|{escaped}|{entity}#0*{code};?|{entity}#x0*{code:x};?)"]
    forms += [f"{entity}{name}" for name in _NAMES.get(ch, ())]
    if code < 256:
        forms.append(rf"(?i:\\+x{code:02x})")
    before = ""
    if ch in "\"'/\\":  # whatever stands before it in JSON, and that again in another encoding
        before = r"(?:\\|&(?:amp;)*#0*92;|(?i:%(?:25)*5c|&(?:amp;)*#x0*5c;|&(?:amp;)*bsol;))*"
    if ch in "\b\f":
        forms.append(r"\\+" + {"\b": "b", "\f": "f"}[ch])
    if ch.isspace():
        forms += [r"\s+", r"\\+[nrt]", r"\+"]
    return f"{before}(?:{'|'.join(forms)})"
