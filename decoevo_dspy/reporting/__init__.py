"""Views of what runs have left on disk: text, tables, figures and one HTML page.

Everything here is a projection of ``events.jsonl``, ``result.json``, ``run.json`` and ``summary.json``. Nothing calls a
model, and nothing writes into a run's own files.
"""
