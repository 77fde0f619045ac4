"""The loop, a lane of it, and lanes on one fair clock; transformers' own decoding as a lane."""
