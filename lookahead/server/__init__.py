"""The server: one queue of jobs, limits, logging, health, and races sent to a page."""
