"""A recorded race: its schema, the events on their way to a page, the verdict, charts and exports.

Knows records. It does not know models, clocks or the running app.
"""
