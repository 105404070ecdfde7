"""Definitions of metrics."""

from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily


class Definition(NamedTuple):
    """A metric: its name, its labels, and its meaning, with advice."""

    name: str
    labels: tuple[str, ...]
    meaning: str

    def gauge(self) -> GaugeMetricFamily:
        """Without samples yet."""
        return GaugeMetricFamily(self.name, self.meaning, labels=self.labels)

    def counter(self) -> CounterMetricFamily:
        """Without samples yet."""
        return CounterMetricFamily(self.name, self.meaning, labels=self.labels)
