"""What the charts take: `values.yaml` and `values.schema.json` of each are made from the classes here."""
