"""`streamstate profile`: a declared profile against the records of its topic, before its deployment."""
