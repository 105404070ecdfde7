"""A profile declared in a YAML file: measures of a key over a topic, without an image of its own."""
