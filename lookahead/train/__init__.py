"""Training in the running app: a head that grows in the Lab, and what `training/` shares with it."""
