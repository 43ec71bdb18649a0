"""The nouns: skill, rubric, task, partitions, settings, seeds, findings, leaks. Frozen and pure: no DSPy, no files."""
