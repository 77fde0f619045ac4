"""Training at run time: a drafter that learns while the app runs (`growing`), networks of new heads, losses.

The bundled models are trained by the top-level package `training`, which uses the same networks.
"""
