"""Everything that touches the outside while an optimisation runs: calls, budget, threads, the log, the run folder."""
