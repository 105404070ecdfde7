"""The parts of a run, each with its figures and targets."""
