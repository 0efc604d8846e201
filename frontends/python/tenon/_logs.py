"""Messages of the host to Python's `logging`: loggers "tenon.COMPONENT"."""

import logging

# By TENON_LOG_*.
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def show(level: int, component: str, text: str) -> None:
    """Gives one message to its logger. TENON_LOGS decides which messages there are."""
    logging.getLogger(f"tenon.{component}").log(_LEVELS[min(level, 3)], "%s", text)
