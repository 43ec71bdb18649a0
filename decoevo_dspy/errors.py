"""The error tree: a mistake to fix, or a failure that a retry may cure.

``ConfigurationError`` means that the same command will fail again until somebody changes its input;
``ExecutionError`` means that the surroundings failed and the saved state can be resumed.
"""


class DecoEvoError(Exception):
    """Base of every error this library raises on purpose. ``exit_code`` is what the command line returns for it."""

    exit_code = 1


class ConfigurationError(DecoEvoError):
    """Wrong usage, config or data. The message is one line: what, where, which fix."""

    exit_code = 2


class DataError(ConfigurationError):
    """A data file or data set cannot be used as it is; the message names the row and the field."""


class NewerVersion(DataError):
    """A newer version of this package has written the file."""


class LeakageError(DataError):
    """The same question stands in two partitions, or under two ids."""


class ExecutionError(DecoEvoError):
    """Something outside failed while running; the state is saved and ``--resume`` may help."""

    exit_code = 4


class EndpointError(ExecutionError):
    """The model endpoint cannot be used: unreachable, refused the credentials, or does not know the model."""


class BudgetExceeded(ExecutionError):
    """A cap on calls, tokens or money was reached before the next call was sent."""

    exit_code = 3


class ReplayDiverged(ExecutionError):
    """A resumed run took another decision than the one its event log holds; code, settings or data have changed."""

    exit_code = 2


class RunLocked(ConfigurationError):
    """Another process is writing the same run folder."""
