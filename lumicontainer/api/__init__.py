"""Do from Python what the command line does: each verb has a function, most have a request.

Values go in and come out; problems are raised as the exceptions of ``lumicontainer.errors``.
Nothing is printed. The caller's folder, environment, signal handlers and logging stay as they are.
Any thread may call these functions, and a notebook too. An exception that interrupts a call, such
as ``KeyboardInterrupt``, leaves nothing behind.

A module is imported when one of its names is used first.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lumicontainer.api.beginning import InitRequest, init
    from lumicontainer.api.bills import BillRequest, bill_of_materials, require_provenance
    from lumicontainer.api.build_results import (
        BuildResult,
        BuiltImage,
        Comparison,
        CompiledLayer,
        PlannedBuild,
    )
    from lumicontainer.api.building import BuildRequest, build, run_build
    from lumicontainer.api.caching import (
        CacheContent,
        Examination,
        Explanation,
        Pruned,
        PruneRequest,
        explain_cache,
        list_cache,
        prune_cache,
        verify_cache,
    )
    from lumicontainer.api.checking import CheckRequest, Judgment, check
    from lumicontainer.api.differences import DiffRequest, find_differences
    from lumicontainer.api.documents import (
        Listing,
        ShownDocument,
        ShownRecipe,
        ShowRequest,
        list_documents,
        show,
    )
    from lumicontainer.api.extending import Extended, ExtendRequest, extend
    from lumicontainer.api.failed_builds import (
        FailedBuild,
        list_failed_builds,
        remove_failed_builds,
    )
    from lumicontainer.api.image import Image, inspect, run
    from lumicontainer.api.importing import Imported, ImportRequest, import_file
    from lumicontainer.api.job_deaths import Postmortem, postmortem
    from lumicontainer.api.jobs import (
        JobRequest,
        JobScript,
        job_script,
        submit_job,
        wait_for_job,
    )
    from lumicontainer.api.linting import LintRequest, LintResult, fix_scripts, lint
    from lumicontainer.api.locking import LockRequest, WrittenLock, lock
    from lumicontainer.api.rebuilding import RebuildRequest, Rebuilt, rebuild
    from lumicontainer.api.recipes import RecipeRequest
    from lumicontainer.api.rendering import Rendered, RenderRequest, render
    from lumicontainer.api.report import Report
    from lumicontainer.api.sending import BuildJob, SentBuild
    from lumicontainer.api.shared_cache import (
        Publication,
        PublishRequest,
        SharedContent,
        list_shared,
        prune_shared,
        publish_objects,
        verify_shared,
    )
    from lumicontainer.api.sharing import PullRequest, PushRequest, SharedImage, pull, push
    from lumicontainer.api.signing import require_signature, verify_signature
    from lumicontainer.api.starting import (
        Binds,
        ImageRequest,
        KernelRequest,
        ModuleRequest,
        WrittenModules,
        find_binds,
        reframe_test,
        write_kernel,
        write_module_files,
    )
    from lumicontainer.api.values import BuildOptions, Check, OnProgress, SlurmJob
    from lumicontainer.api.verifying import VerifyRequest, checks, run_verification, verify
    from lumicontainer.api.watching import JobPicture, look_at_job, watch_job
    from lumicontainer.building.docker_output import DockerOutput
    from lumicontainer.building.doctor import diagnose
    from lumicontainer.building.file_output import FileOutput
    from lumicontainer.core.resolve.decisions import Resolved
    from lumicontainer.host.recipes import resolve_recipe as resolve
    from lumicontainer.system.process import Finished
    from lumicontainer.system.terminal.forms import Event
    from lumicontainer.trust.differences import Differences
    from lumicontainer.trust.signatures import SignatureVerdict
    from lumicontainer.trust.statement import Provenance

__all__ = [
    "BillRequest",
    "Binds",
    "BuildJob",
    "BuildOptions",
    "BuildRequest",
    "BuildResult",
    "BuiltImage",
    "CacheContent",
    "Check",
    "CheckRequest",
    "Comparison",
    "CompiledLayer",
    "DiffRequest",
    "Differences",
    "DockerOutput",
    "Event",
    "Examination",
    "Explanation",
    "ExtendRequest",
    "Extended",
    "FailedBuild",
    "FileOutput",
    "Finished",
    "Image",
    "ImageRequest",
    "ImportRequest",
    "Imported",
    "InitRequest",
    "JobPicture",
    "JobRequest",
    "JobScript",
    "Judgment",
    "KernelRequest",
    "LintRequest",
    "LintResult",
    "Listing",
    "LockRequest",
    "ModuleRequest",
    "OnProgress",
    "PlannedBuild",
    "Postmortem",
    "Provenance",
    "PruneRequest",
    "Pruned",
    "Publication",
    "PublishRequest",
    "PullRequest",
    "PushRequest",
    "RebuildRequest",
    "Rebuilt",
    "RecipeRequest",
    "RenderRequest",
    "Rendered",
    "Report",
    "Resolved",
    "SentBuild",
    "SharedContent",
    "SharedImage",
    "ShowRequest",
    "ShownDocument",
    "ShownRecipe",
    "SignatureVerdict",
    "SlurmJob",
    "VerifyRequest",
    "WrittenLock",
    "WrittenModules",
    "bill_of_materials",
    "build",
    "check",
    "checks",
    "diagnose",
    "explain_cache",
    "extend",
    "find_binds",
    "find_differences",
    "fix_scripts",
    "import_file",
    "init",
    "inspect",
    "job_script",
    "lint",
    "list_cache",
    "list_documents",
    "list_failed_builds",
    "list_shared",
    "lock",
    "look_at_job",
    "postmortem",
    "prune_cache",
    "prune_shared",
    "publish_objects",
    "pull",
    "push",
    "rebuild",
    "reframe_test",
    "remove_failed_builds",
    "render",
    "require_provenance",
    "require_signature",
    "resolve",
    "run",
    "run_build",
    "run_verification",
    "show",
    "submit_job",
    "verify",
    "verify_cache",
    "verify_shared",
    "verify_signature",
    "wait_for_job",
    "watch_job",
    "write_kernel",
    "write_module_files",
]

_NAMES: Mapping[str, Sequence[str]] = {
    "api.bills": (
        "BillRequest",
        "bill_of_materials",
        "require_provenance",
    ),
    "api.differences": (
        "DiffRequest",
        "find_differences",
    ),
    "api.build_results": (
        "BuildResult",
        "BuiltImage",
        "Comparison",
        "CompiledLayer",
        "PlannedBuild",
    ),
    "api.building": (
        "BuildRequest",
        "build",
        "run_build",
    ),
    "api.caching": (
        "CacheContent",
        "Examination",
        "Explanation",
        "PruneRequest",
        "Pruned",
        "explain_cache",
        "list_cache",
        "prune_cache",
        "verify_cache",
    ),
    "api.checking": (
        "CheckRequest",
        "Judgment",
        "check",
    ),
    "api.beginning": (
        "InitRequest",
        "init",
    ),
    "api.documents": (
        "Listing",
        "ShowRequest",
        "ShownDocument",
        "ShownRecipe",
        "list_documents",
        "show",
    ),
    "api.failed_builds": (
        "FailedBuild",
        "list_failed_builds",
        "remove_failed_builds",
    ),
    "api.importing": (
        "ImportRequest",
        "Imported",
        "import_file",
    ),
    "api.extending": (
        "ExtendRequest",
        "Extended",
        "extend",
    ),
    "api.image": (
        "Image",
        "inspect",
        "run",
    ),
    "api.job_deaths": (
        "Postmortem",
        "postmortem",
    ),
    "api.jobs": (
        "JobRequest",
        "JobScript",
        "job_script",
        "submit_job",
        "wait_for_job",
    ),
    "api.linting": (
        "LintRequest",
        "LintResult",
        "fix_scripts",
        "lint",
    ),
    "api.locking": (
        "LockRequest",
        "WrittenLock",
        "lock",
    ),
    "api.rebuilding": (
        "RebuildRequest",
        "Rebuilt",
        "rebuild",
    ),
    "api.recipes": (
        "RecipeRequest",
        "resolve",
    ),
    "api.rendering": (
        "RenderRequest",
        "Rendered",
        "render",
    ),
    "api.report": ("Report",),
    "api.shared_cache": (
        "Publication",
        "PublishRequest",
        "SharedContent",
        "list_shared",
        "prune_shared",
        "publish_objects",
        "verify_shared",
    ),
    "api.sending": (
        "BuildJob",
        "SentBuild",
    ),
    "api.sharing": (
        "PullRequest",
        "PushRequest",
        "SharedImage",
        "pull",
        "push",
    ),
    "api.signing": (
        "require_signature",
        "verify_signature",
    ),
    "api.starting": (
        "Binds",
        "ImageRequest",
        "KernelRequest",
        "ModuleRequest",
        "WrittenModules",
        "find_binds",
        "reframe_test",
        "write_kernel",
        "write_module_files",
    ),
    "api.values": (
        "BuildOptions",
        "Check",
        "OnProgress",
        "SlurmJob",
    ),
    "api.verifying": (
        "VerifyRequest",
        "checks",
        "run_verification",
        "verify",
    ),
    "api.watching": (
        "JobPicture",
        "look_at_job",
        "watch_job",
    ),
    "building.docker_output": ("DockerOutput",),
    "building.file_output": ("FileOutput",),
    "building.doctor": ("diagnose",),
    "core.resolve.decisions": ("Resolved",),
    "system.process": ("Finished",),
    "trust.differences": ("Differences",),
    "trust.signatures": ("SignatureVerdict",),
    "trust.statement": ("Provenance",),
    "system.terminal.forms": ("Event",),
}
"""By module: the names that this package has of it."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"lumicontainer.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
