"""Profiles: measures of a key, declared over the fields of a topic's events, in a class or in a YAML file."""
