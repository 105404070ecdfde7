"""A service whose worker a record can kill, and that decodes a further kind of record later."""
