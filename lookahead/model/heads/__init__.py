"""Trained heads: drafters that read the target's hidden states (Medusa, MTP, EAGLE-3, DFlash and its descendants)."""
