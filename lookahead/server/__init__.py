"""One queue of computing: jobs, limits, logging, health, and races on their way to a page.

Knows races and long work, and Gradio as far as it carries them. It does not know what the page looks like.
"""
