"""The simulated backbone: a text-in, text-out model over a latent world, for offline runs and tests of mechanisms.

It is a testbed with a known truth, never evidence about real models.
"""
