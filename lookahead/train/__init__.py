"""Training at run time: a drafter that learns while the app runs (`growing`), networks and losses of trained heads.

The bundled models are trained by the top-level package `training`, which uses the same heads and losses.
"""
