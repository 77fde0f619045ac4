"""Families of models: sources of their files, checks and downloads from the hub, loading, and measurements at load."""
