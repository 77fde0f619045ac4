"""This computer: its processor, its devices, and what is free on them.

Knows bytes and names. It does not know models.
"""
