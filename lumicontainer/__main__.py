"""Run the command line; before it has begun, Ctrl-C ends it without a word."""

import signal


def main() -> int:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lumicontainer.cli import main as run  # noqa: PLC0415 - it takes long on some file systems

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
