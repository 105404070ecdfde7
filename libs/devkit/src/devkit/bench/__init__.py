"""`make bench`: what the system does on this machine, measured on real parts and checked for exactness."""
