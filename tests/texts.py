"""Invalid texts, for all parsers."""

NO_IDS = [
    "abc", "-1", "+1", " 1", "1 ", "1\n", "1_000", "１", "٣", "²", "00012", "00", "1e3", "1.0", "0x10", "NaN",  # noqa: RUF001
    "9223372036854775808", "9" * 5_000, "\0", "1\0", "../1", "1/2", "true", "7;a=b",
]  # fmt: skip
"""As they are meant; in a path they are percent-encoded."""
