"""The Lab tab, a file per section."""
