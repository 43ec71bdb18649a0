"""What a saved program says of its LMs: the model and its sampling parameters, and nothing of who asks."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import dspy

from decoevo_dspy.calls.secrets import shown

_KEPT = frozenset(
    {"_dspy_lm_class", "model", "model_type", "cache", "num_retries", "timeout", "engine", "async_engine"}
    | {"finetuning_model", "use_developer_role", "prompt_cache"}
)
_EMPTIED = ("launch_kwargs", "train_kwargs")
_ADDRESSES = ("api_base", "base_url")


def public_lm_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of an LM without every option that may not be shown; its address without user, query and fragment.

    >>> public_lm_state({"model": "m", "top_p": 0.9, "headers": {"X": "secret"}, "api_base": "http://me:pw@host/v1?k=1"})
    {'model': 'm', 'top_p': 0.9, 'api_base': 'http://host/v1'}
    """
    found: dict[str, Any] = {}
    for name, value in state.items():
        if name in _ADDRESSES and isinstance(value, str):
            found[name] = bare_address(value)
        elif name in _EMPTIED:
            found[name] = {}
        elif name in _KEPT or shown(name, value):
            found[name] = value
    return found


def bare_address(url: str) -> str:
    """Scheme, host, port and path of a URL."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def public_state(state: Any) -> Any:
    """The state of a saved program with `public_lm_state` for each of its LMs."""
    if isinstance(state, dict):
        return {
            name: public_lm_state(part) if name == "lm" and isinstance(part, dict) else public_state(part)
            for name, part in state.items()
        }
    return [public_state(part) for part in state] if isinstance(state, list) else state


class DiscreetLM(dspy.LM):
    """A DSPy LM in all but one thing: what is saved of it holds nothing that may not be shown."""

    def dump_state(self) -> dict[str, Any]:
        """The state of the `dspy.LM` that this stands for, to be loaded as one."""
        marker = f"{dspy.LM.__module__}.{dspy.LM.__qualname__}"
        return public_lm_state({**super().dump_state(), "_dspy_lm_class": marker})


def discreet(program: dspy.Module) -> dspy.Module:
    """The program with every LM that has something to hide replaced by a copy that saves without it.

    An LM with sampling parameters and a key alone stays the very object: DSPy saves no key either. This is about
    ``program.save``; a program pickled whole (``save_program=True``) holds its LMs as they are.
    """
    copies: dict[int, dspy.BaseLM] = {}
    for _, predictor in program.named_predictors():
        lm = predictor.lm
        if type(lm) is dspy.LM and _hides(lm):
            if id(lm) not in copies:
                copies[id(lm)] = lm.copy()
                copies[id(lm)].__class__ = DiscreetLM
            predictor.lm = copies[id(lm)]
    return program


def _hides(lm: dspy.LM) -> bool:
    state = lm.dump_state()
    return public_lm_state(state) != state
