"""Trained heads: drafters that read the target's hidden states (Medusa, EAGLE-3, DFlash and its descendants).

Knows their networks, their files, and their passes. It does not know the target's weights but for its embedding and output
head, nor how a draft is verified.
"""
