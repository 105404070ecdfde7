"""`streamstate try`: a profile over a file of events, in memory: no server and no Spark."""
