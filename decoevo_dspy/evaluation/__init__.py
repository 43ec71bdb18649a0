"""What measures a run and never steers it: the official score, checkpoints along training, rubric alignment."""
