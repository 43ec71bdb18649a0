"""Where a role meets a language model: the DSPy seam, recording, the call store, budgets, threads."""
