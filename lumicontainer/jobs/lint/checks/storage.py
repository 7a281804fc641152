"""Judge images, packages, caches and folders."""

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

from lumicontainer.core.rules import conditions
from lumicontainer.jobs.lint.job import BatchJob, Edit, Hit
from lumicontainer.jobs.lint.reading.model import UNKNOWN, Assignment, Start, StartedProgram
from lumicontainer.jobs.lint.rules import rule_tables

_MOVING = ("*-latest.sif", "*/latest.sif", "*_latest.sif", "/appl/local/containers/sif-images/*")
_HOMES = ("~", "~/*", "/users/*", "/home/*")
_ACTIVATE = re.compile(r".*/bin/activate")
_PIP = re.compile(r"pip[0-9.]*")
_BIND_VARIABLES = re.compile(r"(?:SINGULARITY|APPTAINER)_BIND(?:PATH)?")
_HALF = ("fp16", "float16", "half")


def _moving_image(job: BatchJob) -> Iterator[Hit]:
    for start in job.script.starts:
        image = start.image
        if image and any(fnmatchcase(image.text, each) for each in _MOVING):
            yield Hit(image.span, {"image": image.text})


def _is_shared(job: BatchJob, text: str) -> bool:
    patterns = job.shared_folders
    return any(fnmatchcase(each, pattern) for each in text.split(":") for pattern in patterns)


def _python_path(job: BatchJob) -> Iterator[Hit]:
    for setting in job.visible_settings():
        name = re.sub(r"(?:SINGULARITY|APPTAINER)ENV_", "", setting.name)
        text = setting.value.text
        packages = re.search(r"site-packages|/venv|env/|/lib/python", text)
        if name == "PYTHONPATH" and packages and _is_shared(job, text):
            yield Hit(setting.span, {"value": _shown(text)})


def _environment(job: BatchJob) -> Iterator[Hit]:
    for start in job.script.starts:
        command = start.command
        if command.name not in ("source", ".") or len(command.words) < 2:
            continue
        path = command.words[1]
        # lumicontainer itself may be installed in it, as the manual shows.
        tool = any(each.command.name == "lumicontainer" for each in job.script.starts)
        if _ACTIVATE.fullmatch(path.text) and _is_shared(job, path.text) and not tool:
            yield Hit(path.span, {"path": _shown(path.text)})


def _shown(text: str) -> str:
    return text.replace(UNKNOWN, "…")


def _pip(job: BatchJob) -> Iterator[Hit]:
    for start in job.script.starts if job.is_batch else ():
        words = [each.text for each in (*start.program, *start.command.words)]
        for first, second, third in zip(words, words[1:], [*words[2:], ""], strict=False):
            name = first.rpartition("/")[2]
            direct = _PIP.fullmatch(name) and second == "install"
            module = first == "-m" and second == "pip" and third == "install"
            conda = name in ("conda", "mamba", "micromamba") and second in ("install", "create")
            if direct or module or conda:
                yield Hit(start.command.words[0].span, {"program": name if conda else "pip"})
                break


def _home_cache(job: BatchJob) -> Iterator[Hit]:
    names = {str(each.name): each for each in job.platform.caches if each.storage != "home"}
    for setting in job.visible_settings():
        row = names.get(re.sub(r"(?:SINGULARITY|APPTAINER)ENV_", "", setting.name))
        if (
            row
            and any(fnmatchcase(setting.value.text, each) for each in _HOMES)
            and not _is_discouraged(job, setting)
        ):
            facts = {"name": setting.name, "value": _shown(setting.value.text)}
            yield Hit(setting.span, {**facts, "reason": row.reason})


def _is_discouraged(job: BatchJob, setting: Assignment) -> bool:
    rows = (each for each in job.platform.discouraged if each.name == setting.name)
    return any(fnmatchcase(setting.value.text, value) for row in rows for value in row.values)


def _node_cache(job: BatchJob) -> Iterator[Hit]:
    names = {
        str(each.name): each for each in job.platform.caches if each.storage in ("node", "job")
    }
    for setting in job.visible_settings():
        row = names.get(re.sub(r"(?:SINGULARITY|APPTAINER)ENV_", "", setting.name))
        text = setting.value.text
        if (
            row
            and _is_shared(job, text)
            and not _is_discouraged(job, setting)
            and not any(fnmatchcase(text, each) for each in _HOMES)
        ):
            facts = {"name": setting.name, "value": _shown(text), "reason": row.reason}
            yield Hit(setting.span, facts)


def _removed_by_ranks(job: BatchJob) -> Iterator[Hit]:
    for start in job.script.starts:
        command = start.command
        if command.name != "rm" or not command.context.in_step or command.context.conditional:
            continue
        outer = command.context.start
        tasks = job.tasks_on_node(outer) if outer else None
        if (
            any(each.text.startswith("-") and "r" in each.text for each in command.words)
            and tasks != 1
        ):
            yield Hit(command.span, {"tasks": tasks or "all"})


def _engines(job: BatchJob) -> Iterator[tuple[Start, StartedProgram]]:
    for start in job.script.starts:
        for part in start.parts:
            if part.kind == "engine":
                yield start, part


def _no_binds(job: BatchJob) -> Iterator[Hit]:
    bound = any(_BIND_VARIABLES.fullmatch(each.name) for each in job.visible_settings())
    if bound or not job.is_batch or not job.script.is_closed or not job.platform.binds:
        return
    paths = ", ".join(str(each.path) for each in job.platform.binds[:3])
    for start, engine in _engines(job):
        if start.image and engine.lacks("bind", "mount") and not start.command.context.start:
            yield Hit(engine.word.span, {"paths": paths, "platform": job.platform.name})


def _links_not_bound(job: BatchJob) -> Iterator[Hit]:
    target = next((each for each in job.platform.binds if "symbolic links" in each.reason), None)
    if target is None or not job.is_batch:
        return
    linking = re.findall(r"/\w+", target.reason)
    lists = [
        (each.value.text, each.span)
        for each in job.visible_settings()
        if _BIND_VARIABLES.fullmatch(each.name)
    ]
    lists += [
        (o.text, o.span) for _, part in _engines(job) for o in part.options if o.name == "bind"
    ]
    bound = {item.partition(":")[0].rstrip("/") for text, _ in lists for item in text.split(",")}
    if any(UNKNOWN in text for text, _ in lists) or not job.script.is_closed:
        return
    for text, span in lists:
        paths = [item.partition(":")[0].rstrip("/") for item in text.split(",")]
        named = next((each for each in paths if each in linking), "")
        if named and str(target.path) not in bound:
            edits = ()
            yield Hit(span, {"path": named, "target": target.path, "reason": target.reason}, edits)
            return


def _wrong_engine(job: BatchJob) -> Iterator[Hit]:
    own = job.platform.engine
    for start, engine in _engines(job):
        if start.command.context.optional:
            continue
        if own and engine.word.text != own and "/" not in engine.word.text:
            literal = job.is_literal(engine.word.span, engine.word.text)
            edits = (Edit(engine.word.span, own),) if literal else ()
            yield Hit(engine.word.span, {"name": engine.word.text, "own": own}, edits)


def _gpu_flag(job: BatchJob) -> Iterator[Hit]:
    for _, engine in _engines(job):
        option = engine.option("nv", "nvccli", "rocm")
        if option is None or (option.name == "rocm" and not job.platform.gpus):
            continue
        text = f"--{option.name}"
        edits = (Edit(option.span, ""),) if job.is_literal(option.span, text) else ()
        yield Hit(
            option.span,
            {"option": text, "effect": rule_tables()["gpu_flags"][option.name]},
            _with_blank(job, edits),
        )


def _with_blank(job: BatchJob, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Return edits that also remove the blank in front of a word."""
    return tuple(
        each._replace(span=each.span._replace(start=each.span.start - 1))
        for each in edits
        if job.script.data[each.span.start - 1 : each.span.start] == b" "
    )


def _half_precision(job: BatchJob) -> Iterator[Hit]:
    if not conditions.is_met("rocm", [conditions.parse("6.4", ())], job.facts):
        return
    for start in job.script.starts:
        for word in start.program:
            name, _, value = word.text.lstrip("-").partition("=")
            if word.text.startswith("-") and (name in _HALF or value in _HALF):
                yield Hit(word.span, {"word": word.text})


CHECKS: Mapping[str, Callable[[BatchJob], Iterator[Hit]]] = {
    "moving-image": _moving_image,
    "packages-on-lustre": _python_path,
    "environment-on-lustre": _environment,
    "install-in-job": _pip,
    "cache-in-home": _home_cache,
    "cache-on-lustre": _node_cache,
    "cache-removed-by-ranks": _removed_by_ranks,
    "no-binds": _no_binds,
    "links-not-bound": _links_not_bound,
    "other-engine": _wrong_engine,
    "engine-gpu-flag": _gpu_flag,
    "fp16-with-rocm-6.4": _half_precision,
}
