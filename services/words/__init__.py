"""How often each word was said, over all partitions."""
