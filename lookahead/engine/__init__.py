"""The decoding loop, lanes, their schedule, batches, and transformers' own decoding as a lane."""
