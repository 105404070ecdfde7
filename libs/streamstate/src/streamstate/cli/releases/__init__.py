"""Commands for the releases of a service side by side: stage, wait, diff, promote, back, drop."""
