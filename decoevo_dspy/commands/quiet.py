"""Keeps third-party noise off the command line. Called by commands only: importing the library changes no logger."""

import logging
import os
import warnings


def quieten() -> None:
    """Offline price tables, no hints printed by LiteLLM, and no warnings of libraries that the user cannot act on."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    warnings.filterwarnings("ignore")
    import dspy  # noqa: F401 - it sets its own logger's level when it is imported

    for name in ("LiteLLM", "litellm", "dspy", "httpx", "openai", "huggingface_hub", "matplotlib"):
        logging.getLogger(name).setLevel(logging.ERROR)


def quieten_litellm() -> None:
    """Switch off LiteLLM's own prints; imports it, which takes seconds, so only where it will be used."""
    import litellm

    litellm.suppress_debug_info = True
