"""The charts: their values are the classes here, and the files of a service's chart are made from its folder."""
