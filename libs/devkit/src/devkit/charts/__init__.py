"""The values of the charts: `values.yaml` and `values.schema.json` of each are generated from these classes."""
