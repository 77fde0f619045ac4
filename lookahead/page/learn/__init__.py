"""The Learn tab: lessons as files, and the widgets in them."""
