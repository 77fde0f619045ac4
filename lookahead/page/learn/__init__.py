"""The Learn tab: lessons as files, the widgets in them, and a widget's work.

Knows lessons, and whatever a widget shows of the engine. It does not know the other tabs, but for parts of the Lab.
"""
