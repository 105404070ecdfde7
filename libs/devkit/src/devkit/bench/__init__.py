"""`make bench`: the performance of the system on this machine, measured on real parts and checked for exactness."""
