"""Families of models: where their files come from, the hub's checks and downloads, loading, and what is measured at load."""
