"""Models by name: bundled, in folders, from the hub; looked at, brought, loaded and measured.

Knows files, tokenizers and configurations. It does not know what is done with a model.
"""
