"""The server: one queue of jobs, limits, logging, health, and races on their way to a page."""
