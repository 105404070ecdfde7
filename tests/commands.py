"""Results of commands that run in the process of the tests."""

from typer.testing import Result


def failed(result: Result, status: int) -> str:
    """The single line on stderr of a command with the exit status `status`."""
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    [line] = result.stderr.splitlines()
    return line
