"""Trained heads: drafters that read the target's hidden states (Medusa, EAGLE-3, DFlash and its descendants)."""
