"""Judge the variables that a script exports."""

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

from lumicontainer.core.model import Discouraged
from lumicontainer.core.rules.conditions import is_met
from lumicontainer.core.rules.discouraged import conditions_of_image
from lumicontainer.inside import version_range
from lumicontainer.inside.rank.variables import is_meant
from lumicontainer.jobs.lint.job import BatchJob, Edit, Hit
from lumicontainer.jobs.lint.reading.model import UNKNOWN, Assignment, OptionUse, Span
from lumicontainer.jobs.lint.rules import rule_tables
from lumicontainer.system.terminal import masking

_ENGINE_PREFIX = re.compile(r"(?:SINGULARITY|APPTAINER)ENV_(?=[A-Z_a-z])")
_NEARLY_PREFIX = re.compile(
    r"(?:SINGULARITY_ENV_|APPTAINER_ENV_|SINGULARTYENV_|SINGULARITYENV(?=[A-Z])"
    r"|SINGULARITYENVV_|SINGULARITYEVN_|SINGULARITIENV_|SINGULARITYNEV_|APPTAINERENV(?=[A-Z])"
    r"|APPTAINERVEN_|APTAINERENV_|SINGULARITY_NV_|SINGULARITENV_|SINGULAIRTYENV_)"
)
_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_PREFIXES = re.compile(
    r"(?:NCCL|RCCL|MIOPEN|HSA|FI|TORCH|PYTORCH|MASTER|ROCR|HIP|OFI|HF|OMP|MPICH|SRUN|SBATCH|GLOO|TRITON"
    r"|HOROVOD|DS|PREPEND|APPEND|SINGULARITY|APPTAINER|LD)_\w+|WORLD_SIZE\w*"
)
_NAME = re.compile(r"[A-Za-z_]\w*")


def _pairs(job: BatchJob) -> Iterator[tuple[str, str, Span, Assignment | None]]:
    """Yield the variables that containers see: name, value, place, and the assignment."""
    for setting in job.visible_settings():
        if not setting.context.optional:
            name = _ENGINE_PREFIX.sub("", setting.name)
            yield name, setting.value.text, setting.span, setting
    for start in job.script.starts:
        for part in start.parts:
            for option in part.options:
                if option.name in ("env", "export") and option.value:
                    yield from _in_option(option)


def _in_option(option: OptionUse) -> Iterator[tuple[str, str, Span, Assignment | None]]:
    for pair in option.text.split(","):
        name, equals, value = pair.partition("=")
        if equals and _NAME.fullmatch(name):
            yield name, value, option.span, None


def _discouraged(job: BatchJob) -> Iterator[Hit]:
    for name, value, span, setting in _pairs(job):
        for row in job.platform.discouraged:
            meaning = {key: each for key, each in row._asdict().items() if each}
            if (
                row.name == name
                and is_meant(meaning, value)
                and _is_known(row, value)
                and _holds(job, row)
            ):
                facts = {"name": name, "value": value, "platform": job.platform.name}
                texts = {"reason": row.reason, "source": row.source, "hint": row.hint}
                yield Hit(span, {**facts, **texts}, _row_edits(job, row, setting))
                break


def _is_known(row: Discouraged, value: str) -> bool:
    """Return whether a value that is known in part decides it."""
    if UNKNOWN not in value or not (row.values or row.allowed_values):
        return True
    begun = value.partition(UNKNOWN)[0]
    return bool(begun) and any(
        pattern.endswith("/*") and begun.startswith(pattern[:-1]) for pattern in row.values
    )


def _holds(job: BatchJob, row: Discouraged) -> bool:
    nodes = row.when.get("nodes")
    if nodes and not (job.nodes and version_range.holds(nodes, str(job.nodes))):
        return False
    if row.when.keys() & {"ranks", "network"}:
        return False
    conditions = conditions_of_image(row)
    # Without an image nothing is known of it.
    return all(bool(job.layers) and is_met(key, terms, job.facts) for key, terms in conditions)


def _row_edits(job: BatchJob, row: Discouraged, setting: Assignment | None) -> tuple[Edit, ...]:
    if setting is None or not setting.context.editable:
        return ()
    longer = [each.name for each in job.platform.caches if each.name.startswith(f"{row.name}_")]
    used = job.is_used(setting.name)
    if longer and not row.values and not used and not any(job.script.exports(*longer)):
        return (Edit(setting.name_span, setting.name.replace(row.name, longer[0])),)
    advised = re.fullmatch(rf"export {row.name}=(\w+)", row.hint)
    if advised and job.is_literal(setting.value.span, setting.value.text):
        return (Edit(setting.value.span, advised[1]),)
    if (
        setting.lines
        and not used
        and not setting.context.start
        and not setting.context.conditional
        and re.match(rf"unset {row.name}\b", row.hint)
    ):
        return (Edit(setting.lines, ""),)
    return ()


def _misspelled(job: BatchJob) -> Iterator[Hit]:
    rows = {str(each.name) for each in job.platform.discouraged}
    known = _known_names(job)
    for setting in job.visible_settings():
        name = _ENGINE_PREFIX.sub("", setting.name)
        if name in known or name in rows:
            continue
        near = rule_tables()["misspellings"].get(name) or _near(name, known)
        if near:
            yield Hit(
                setting.name_span, {"name": name, "near": near}, _rename(job, setting, name, near)
            )


def _known_names(job: BatchJob) -> frozenset[str]:
    own = (
        job.platform.variables,
        job.platform.caches,
        job.platform.advised,
        job.platform.discouraged,
    )
    names = {str(each.name) for rows in own for each in rows}
    return frozenset(names | set(" ".join(rule_tables()["variables"]).split()))


def _rename(job: BatchJob, setting: Assignment, old: str, new: str) -> tuple[Edit, ...]:
    used = job.is_used(setting.name)
    taken = any(each.name == setting.name.replace(old, new) for each in job.script.settings)
    if used or taken or not setting.context.editable:
        return ()
    return (Edit(setting.name_span, setting.name.replace(old, new)),)


def _near(name: str, known: frozenset[str]) -> str:
    """Return the known name that is one typing error away; empty if there is not exactly one."""
    if not _PREFIXES.fullmatch(name) or len(name) < 8:
        return ""
    near = [each for each in known if abs(len(each) - len(name)) <= 1 and _one_error(name, each)]
    return near[0] if len(near) == 1 else ""


def _one_error(first: str, second: str) -> bool:
    """Return whether one letter is missing, added or another, or two neighbours are swapped."""
    start = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    if start is None:
        return abs(len(first) - len(second)) == 1
    rest, other = first[start:], second[start:]
    swapped = rest[1:2] + rest[:1] + rest[2:] == other and rest[2:] == other[2:]
    changed = [(rest[1:], other[1:]), (rest, other[1:]), (rest[1:], other)]
    if first[start].isdigit() and second[start].isdigit():
        return False
    return swapped or any(a == b for a, b in changed)


def _engine_prefix(job: BatchJob) -> Iterator[Hit]:
    engine = job.platform.engine.upper() or "SINGULARITY"
    for setting in job.visible_settings():
        match = _NEARLY_PREFIX.match(setting.name)
        if match and setting.name not in rule_tables()["engine_variables"]:
            right = f"{engine}ENV_"
            rest = setting.name[match.end() :]
            yield Hit(
                setting.name_span,
                {"name": setting.name, "right": right + rest},
                _rename(job, setting, match[0], right),
            )


def _library_path(job: BatchJob) -> Iterator[Hit]:
    for setting in job.visible_settings():
        if setting.name.endswith("ENV_LD_LIBRARY_PATH") and _ENGINE_PREFIX.match(setting.name):
            yield Hit(setting.span, {"name": setting.name})


def _clean_environment(job: BatchJob) -> Iterator[Hit]:
    for start in job.script.starts:
        engine = next((each for each in start.parts if each.kind == "engine"), None)
        option = engine.option("cleanenv", "containall") if engine else None
        if option and start.srun and not start.entry:
            yield Hit(option.span, {"option": option.name})


def _export_drops(job: BatchJob) -> Iterator[Hit]:
    options = [each for each in job.script.directives if each.name == "export"]
    for start in job.script.starts:
        options += [
            each
            for part in start.parts
            if part.kind == "srun"
            for each in part.options
            if each.name == "export"
        ]
    for option in options:
        names = option.text.split(",")
        if option.text and not {"ALL", "NONE", "NIL"} & set(names):
            literal = option.value and job.is_literal(option.value.span, option.text)
            edits = (
                (Edit(option.value.span, f"ALL,{option.text}"),) if literal and option.value else ()
            )
            yield Hit(option.span, {"value": option.text}, edits)


def _fixed_devices(job: BatchJob) -> Iterator[Hit]:
    for setting in job.script.exports(*_VISIBLE):
        value = setting.value.text
        devices = value.split(",")
        if (
            re.fullmatch(r"\d+(,\d+)*", value)
            and job.gpus
            and len(devices) < job.gpus
            and not setting.context.conditional
        ):
            facts = {
                "name": setting.name,
                "value": value,
                "gpus": job.gpus,
                "seen": len(devices),
            }
            yield Hit(setting.span, facts)


def _both_devices(job: BatchJob) -> Iterator[Hit]:
    seen: dict[str, Assignment] = {}
    for setting in job.script.exports(*_VISIBLE[:2]):
        if setting.value.text and not setting.context.conditional:
            seen[setting.name] = setting
    if len(seen) == 2:
        yield Hit(max(each.span for each in seen.values()))


def _debugging(job: BatchJob) -> Iterator[Hit]:
    for name, value, span, _ in _pairs(job):
        for row in rule_tables()["debugging"]:
            if name == row["name"] and value.upper() in row["values"]:
                yield Hit(span, {"name": name, "value": value, "effect": row["effect"]})


def _without_effect(job: BatchJob) -> Iterator[Hit]:
    for name, _, span, setting in _pairs(job):
        for row in rule_tables()["without_effect"]:
            if fnmatchcase(name, row["name"]):
                edits = _drop(job, setting)
                yield Hit(span, {"name": name, "cause": row["cause"]}, edits)


def _drop(job: BatchJob, setting: Assignment | None) -> tuple[Edit, ...]:
    if setting is None or setting.lines is None or job.is_used(setting.name):
        return ()
    free = setting.context.editable and not setting.context.conditional
    return (Edit(setting.lines, ""),) if free and not setting.context.start else ()


def _network(job: BatchJob) -> Iterator[Hit]:
    rows = [each for each in job.platform.variables if "network" in each.when]
    steps = [each for each in job.script.starts if each.srun]
    for name, value, span, _ in _pairs(job):
        row = next((each for each in rows if each.name == name and each.value == value), None)
        if row is None or name == "FI_CXI_RX_MATCH_MODE" or not steps:
            continue
        word = row.when["network"]
        if any(
            each.srun and not _lacks_network(each.srun.option("network"), word) for each in steps
        ):
            continue
        if all(each.srun and each.srun.complete for each in steps) and not job.option("network"):
            yield Hit(span, {"name": name, "value": value, "option": f"--network={word}"})
            return


def _lacks_network(option: OptionUse | None, word: str) -> bool:
    return not (option and word in option.text.split(","))


def _secrets(job: BatchJob) -> Iterator[Hit]:
    seen: list[Span] = []
    for setting in (
        *job.script.settings,
        *(s for each in job.script.starts for s in each.command.settings),
    ):
        value = setting.value
        if value.is_known and value.text and masking.is_secret(setting.name, value.text):
            seen.append(setting.span)
            yield Hit(setting.span, {"name": setting.name})
    text = job.script.data.decode(errors="replace")
    for token in dict.fromkeys(masking.tokens(text)):
        at = len(text[: text.index(token)].encode())
        if not any(each.start <= at < each.end for each in seen):
            yield Hit(Span(at, at + len(token.encode())), {"name": "a token"})


CHECKS: Mapping[str, Callable[[BatchJob], Iterator[Hit]]] = {
    "discouraged-variable": _discouraged,
    "misspelled-variable": _misspelled,
    "engine-prefix": _engine_prefix,
    "library-path-replaced": _library_path,
    "clean-environment": _clean_environment,
    "export-drops-variables": _export_drops,
    "visible-devices-fixed": _fixed_devices,
    "visible-devices-twice": _both_devices,
    "debugging-left-on": _debugging,
    "variable-without-effect": _without_effect,
    "alt-read-without-network": _network,
    "secret-in-clear": _secrets,
}
