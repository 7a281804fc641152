"""What is done around the run where an option or the platform asks for it.

Each lies in a module of its own, which is read only then: every rank pays for what it reads.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..environment import Setting
    from ..rank.context import Context


def cache_settings(context: Context) -> Iterable[Setting]:
    """Decide where caches lie, on a platform that tells it."""
    if not context.platform.get("caches"):
        return ()
    from ..rank import caches  # noqa: PLC0415

    return caches.settings(context)


def make_caches(context: Context) -> None:
    """Make the folders of the caches on the node."""
    if context.caches:
        from ..rank import caches  # noqa: PLC0415

        caches.make(context)


def make_recorder(context: Context) -> None:
    """Make the folder that PyTorch's flight recorder writes to."""
    if context.recorder and not context.number("LOCAL_RANK"):
        from ..rank import flight_recorder  # noqa: PLC0415

        flight_recorder.make(context)


def judge(context: Context, settings: list[Setting]) -> None:
    """Tell of what the user exported and the platform's table discourages."""
    if any(row["name"] in context.env for row in context.platform.get("discouraged", ())):
        from ..rank import discouraged  # noqa: PLC0415

        discouraged.judge(context, settings)


def check_node(context: Context) -> None:
    """Check each node once (--preflight)."""
    if context.options.preflight and not context.number("LOCAL_RANK"):
        from . import preflight  # noqa: PLC0415

        preflight.check(context)


def show_gpus(context: Context) -> None:
    """Show the GPUs of each node once (--smi)."""
    if context.options.smi and not context.number("LOCAL_RANK"):
        from . import smi  # noqa: PLC0415

        smi.show(context)


def redirect(context: Context) -> None:
    """Lead what the rank says to files of its own (--log-dir)."""
    if context.options.log_dir:
        from . import logs  # noqa: PLC0415

        logs.redirect(context)


def profiled(context: Context, command: list[str]) -> list[str]:
    """Put the profiler before the command of the ranks that are named (--profile)."""
    if not (context.options.profile or context.options.profiler):
        return command
    from . import profiler  # noqa: PLC0415

    return profiler.wrapped(context, command)
