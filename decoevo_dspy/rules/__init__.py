"""The pure rules: acceptance, statistics, matching. No DSPy, no files, no model."""
