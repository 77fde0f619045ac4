"""The Lab tab, a file a section.

Knows measurements and how they are shown. It does not know how they are made.
"""
