"""For each field that users write: what its change rebuilds."""

from __future__ import annotations

from lumicontainer.core.model import (
    Bind,
    Bootstrap,
    CacheFolder,
    CheckNeeds,
    Content,
    Discouraged,
    Expects,
    GitSource,
    Gpu,
    LayerUse,
    Packages,
    PipInstall,
    Provider,
    SdistSource,
    UrlSource,
    Variable,
    Variant,
)
from lumicontainer.core.yaml.nodes import Scalar
from lumicontainer.core.yaml.readers import Text
from lumicontainer.core.yaml.validators import SCRIPT

from .checks_of_worlds import (
    FILE,
    check_field,
    checks_field,
    needs_field,
    threshold_field,
)
from .sets_of_worlds import (
    fetched_field,
    file_of_another,
    image_of_a_version,
    named_by_the_platform,
    named_by_the_recipe,
    other_needs,
    other_script,
    profile_field,
    profile_values,
    providers,
    versions,
)
from .worlds import (
    HERE,
    THERE,
    UNUSED,
    Change,
    baked_in,
    bootstrap_field,
    compile_script,
    content_field,
    file_field,
    given_values,
    in_another_order,
    layer_field,
    no_need,
    omitted,
    one_more_file,
    one_more_layer,
    one_more_parameter,
    other_base,
    packages_field,
    parameter_field,
    platform_field,
    recipe_field,
    renamed,
    set_to_its_default,
    source_field,
    table_field,
    type_of_a_parameter,
    variant,
)

BASE, STEP, INSTALL, RECORD, NOTHING = "base", "step", "install", "record", "nothing"
"""What a change rebuilds: all; the layer, its wheels and all above; the same without its wheels;
the last step, which bakes in the record; nothing."""


VARIABLE = Variable("A", "why", "source")
DISCOURAGED = Discouraged("A", "why", "source", "hint")
GIT = GitSource("https://git.example/tool", "0" * 40, "tool")
URL = UrlSource("https://files.example/x.tgz", "x.tgz", "0" * 64)


def cache(name: str = "B") -> CacheFolder:
    return CacheFolder(name, "folder", "node", "why", "source")


def apt(word: str) -> Content:
    return Content(Packages(apt=(word,)))


MATRIX: list[tuple[str, str, Change]] = [
    ("Parameter.name", STEP, parameter_field(0, name=lambda word: word)),
    ("Parameter.type", STEP, type_of_a_parameter),
    ("Parameter.default", STEP, parameter_field(0, default=lambda word: word)),
    ("Parameter.default", STEP, parameter_field(2, default=lambda word: f"2.0+{word}")),
    ("Parameter.place", NOTHING, parameter_field(0, place=THERE)),
    ("Parameter.summary", NOTHING, parameter_field(0, summary=lambda word: word)),
    ("Parameter.choices", NOTHING, parameter_field(0, choices=lambda word: (word,))),
    ("Parameter.unsupported", NOTHING, parameter_field(1, unsupported={"rocm": "why"})),
    ("SdistSource.sdist", STEP, source_field("sdist")),
    ("SdistSource.sha256", STEP, source_field("sha256")),
    ("Packages.apt", STEP, packages_field("apt")),
    (
        "Content.apt_repositories",
        STEP,
        content_field("apt_repositories", lambda word: f"{word}.sh"),
    ),
    ("Packages.python", STEP, packages_field("python")),
    ("Content.packages", STEP, packages_field("apt")),
    ("Content.sources", STEP, content_field("sources", lambda word: (SdistSource(word),))),
    ("Content.environment", STEP, content_field("environment", lambda word: {"MODE": word})),
    ("Content.environment", STEP, content_field("environment", lambda word: {"MORE": word})),
    ("Content.path", STEP, content_field("path", lambda word: (f"/{word}",))),
    (
        "Content.pip_installs",
        RECORD,
        content_field("pip_installs", lambda word: (PipInstall(word),)),
    ),
    ("PipInstall.package", RECORD, content_field("pip_installs", lambda word: (PipInstall(word),))),
    (
        "PipInstall.index_parameter",
        RECORD,
        content_field("pip_installs", lambda word: (PipInstall(word, "index"),)),
    ),
    ("Content.indexed", STEP, content_field("indexed", lambda word: {f"https://{word}": ("a",)})),
    ("Content.locked", STEP, content_field("locked", lambda word: (word,))),
    ("Content.apt_versions", NOTHING, content_field("apt_versions", lambda word: {"glibc": word})),
    ("Content.provides", RECORD, content_field("provides", lambda word: {"glibc": word})),
    ("LayerFile.content", RECORD, file_of_another("finish.sh")),
    ("Content.expects", NOTHING, content_field("expects", lambda word: Expects(len(word), 7))),
    ("Expects.size", NOTHING, content_field("expects", lambda word: Expects(size=len(word)))),
    ("Expects.memory_per_job", NOTHING, content_field("expects", lambda _: Expects(0, 1 << 33))),
    ("Content.binds", RECORD, content_field("binds", lambda word: (Bind(f"/{word}", "x"),))),
    (
        "Content.host_libraries",
        RECORD,
        content_field("host_libraries", lambda word: (Bind(f"/{word}", "x"),)),
    ),
    *(
        (f"GitSource.{each}", STEP, fetched_field(GIT, **{each: value}))
        for each, value in {
            **dict.fromkeys(("git", "commit", "folder"), lambda word: word),
            "submodules": lambda word: (word,),
        }.items()
    ),
    *(
        (f"UrlSource.{each}", STEP, fetched_field(URL, **{each: lambda word: word}))
        for each in ("url", "file", "sha256")
    ),
    ("Layer.versions", STEP, versions(lambda word: {"1.0": apt(word)})),
    ("Layer.versions", NOTHING, versions(lambda word: {word: apt(word)})),
    (
        "Layer.providers",
        STEP,
        providers(lambda word: {"first": Provider(apt(word))}),
    ),
    (
        "Provider.content",
        STEP,
        providers(lambda w: {"first": Provider(Content(Packages(python=(w,))))}),
    ),
    (
        "Provider.versions",
        STEP,
        providers(lambda word: {"first": Provider(versions={"1.0": apt(word)})}),
    ),
    (
        "Variant.versions",
        STEP,
        variant("cpu", lambda word: Variant(versions={"1.0": apt(word)})),
    ),
    (
        "Variant.providers",
        STEP,
        variant("cpu", lambda w: Variant(providers={"b": Provider(apt(w))})),
    ),
    ("Provider.omit", NOTHING, providers(lambda word: {"second": Provider(omit=word)})),
    ("Variant.requires", NOTHING, other_needs),
    ("Content.image", BASE, image_of_a_version),
    ("Variant.install", INSTALL, other_script("install")),
    ("Variant.compile", STEP, other_script("compile")),
    ("LayerFile.name", NOTHING, file_of_another("rocm/a.patch")),
    ("LayerFile.name", STEP, file_of_another("cpu/a.patch")),
    ("Variant.content", STEP, variant("cpu", lambda word: Variant(apt(word)))),
    (
        "Variant.content",
        NOTHING,
        variant("rocm", lambda word: Variant(apt(word))),
    ),
    (
        "Variant.parameters",
        STEP,
        variant("cpu", lambda w: Variant(parameters={"level": Scalar(HERE, w, False)})),
    ),
    ("Variant.omit", STEP, omitted),
    ("Variant.omit", NOTHING, variant("rocm", lambda word: Variant(omit=word))),
    ("Bootstrap.agent", BASE, bootstrap_field("debootstrap", agent="docker")),
    ("Bootstrap.release", BASE, bootstrap_field("debootstrap", release=lambda word: word)),
    ("Bootstrap.include", BASE, bootstrap_field("debootstrap", include=lambda word: (word,))),
    ("Bootstrap.image", BASE, bootstrap_field("docker", image=lambda word: word)),
    ("Bootstrap.packages", BASE, bootstrap_field("debootstrap", packages=lambda word: word)),
    ("Bootstrap.file", BASE, bootstrap_field("docker", file=lambda word: word)),
    ("Bootstrap.sha256", NOTHING, bootstrap_field("docker", sha256=lambda word: word)),
    ("Bootstrap.image", NOTHING, bootstrap_field("debootstrap", image=lambda word: word)),
    ("LayerFile.name", STEP, file_field("a.patch", name=lambda word: word)),
    ("LayerFile.mode", STEP, file_field("a.patch", mode=0o755)),
    ("LayerFile.content", STEP, file_field("a.patch", content=lambda word: word.encode())),
    ("LayerFile.content", INSTALL, file_field(SCRIPT, content=lambda word: word.encode())),
    ("LayerFile.mode", INSTALL, file_field(SCRIPT, mode=0o755)),
    ("LayerFile.content", STEP, compile_script),
    ("LayerFile.content", RECORD, baked_in),
    ("Layer.name", STEP, renamed),
    ("Layer.summary", NOTHING, layer_field(summary=lambda word: word)),
    ("Layer.place", NOTHING, layer_field(place=THERE)),
    ("Layer.version", NOTHING, layer_field(version=Text("2"))),
    ("Layer.requires", NOTHING, no_need),
    ("Layer.conflicts", NOTHING, layer_field(conflicts=lambda _: (UNUSED,))),
    ("Layer.parameters", STEP, one_more_parameter),
    ("Layer.parameters", NOTHING, in_another_order),
    ("Layer.content", STEP, layer_field(content=apt)),
    ("Layer.variants", NOTHING, layer_field(variants={"cpu": Variant(), "rocm": Variant()})),
    (
        "Layer.bootstrap",
        NOTHING,
        layer_field(bootstrap=lambda word: {"cpu": Bootstrap("docker", image=word)}),
    ),
    ("Layer.files", STEP, one_more_file),
    ("Layer.checks", RECORD, checks_field("each", ())),
    ("Checks.each", RECORD, checks_field("each", ())),
    ("Checks.files", RECORD, checks_field("files", ())),
    ("LayerFile.content", RECORD, checks_field("files", (FILE._replace(content=b"false\n"),))),
    *(
        (f"Check.{name}", RECORD, check_field(name, value))
        for name, value in {
            **dict.fromkeys(("name", "summary", "hint", "level", "runs"), "new"),
            "file": FILE._replace(name="checks/b.sh"),
            "timeout_seconds": 61,
            "needs": CheckNeeds(network="cxi"),
            "thresholds": {},
            "imports": ("torch",),
            "start_modes": ("run",),
        }.items()
    ),
    *(
        (f"CheckNeeds.{name}", RECORD, needs_field(name, value))
        for name, value in {
            **dict.fromkeys(("gpus", "nodes", "tasks"), 8),
            **dict.fromkeys(("architecture", "network"), "cxi"),
            "mpi": True,
        }.items()
    ),
    *(
        (f"Threshold.{name}", RECORD, threshold_field(name, value))
        for name, value in {
            **dict.fromkeys(("unit", "source", "architecture"), "new"),
            **dict.fromkeys(("minimum", "maximum", "reference"), 7.5),
        }.items()
    ),
    ("Layer.secrets", STEP, layer_field(secrets=lambda word: (word,))),
    ("Layer.not_reproducible", NOTHING, layer_field(not_reproducible=lambda word: {"/opt": word})),
    ("LayerUse.layer", INSTALL, one_more_layer),
    ("LayerUse.place", NOTHING, given_values(THERE, value="-")),
    ("LayerUse.values", STEP, given_values(HERE)),
    ("Recipe.name", RECORD, recipe_field(name=lambda word: word)),
    ("Recipe.summary", RECORD, recipe_field(summary=lambda word: word)),
    ("Recipe.place", NOTHING, recipe_field(place=THERE)),
    ("Recipe.base", BASE, other_base),
    ("Recipe.layers", INSTALL, one_more_layer),
    ("Recipe.profiles", RECORD, named_by_the_recipe),
    ("Profile.name", RECORD, profile_field(name=lambda word: word)),
    ("Profile.summary", NOTHING, profile_field(summary=lambda word: word)),
    ("Profile.place", NOTHING, profile_field(place=THERE)),
    ("Profile.accelerator", RECORD, profile_field(accelerator="rocm")),
    ("Profile.base", BASE, profile_field(base=LayerUse("other", HERE))),
    ("Profile.values", STEP, profile_values),
    ("Platform.profile", RECORD, named_by_the_platform),
    ("Recipe.text", RECORD, recipe_field(text=lambda word: word)),
    ("Platform.name", RECORD, platform_field(name=lambda word: word)),
    ("Platform.summary", NOTHING, platform_field(summary=lambda word: word)),
    ("Platform.accelerator", RECORD, platform_field(accelerator="rocm")),
    ("Platform.place", NOTHING, platform_field(place=THERE)),
    ("Platform.detect", NOTHING, platform_field(detect=lambda word: (f"/{word}",))),
    ("Platform.driver", NOTHING, platform_field(driver="6.3")),
    ("Platform.engine", NOTHING, platform_field(engine="singularity")),
    ("Platform.proot", NOTHING, platform_field(proot=lambda word: word)),
    ("Platform.expects", NOTHING, platform_field(expects=Expects(1 << 36))),
    ("Platform.binds", RECORD, platform_field(binds=lambda word: (Bind("/x", word),))),
    ("Bind.path", RECORD, platform_field(binds=lambda word: (Bind(f"/{word}", "x"),))),
    ("Bind.reason", RECORD, platform_field(binds=lambda word: (Bind("/x", word),))),
    ("Bind.source", RECORD, platform_field(binds=lambda word: (Bind("/x", "x", word),))),
    ("Platform.gpus", RECORD, platform_field(gpus=lambda word: (Gpu(word, "1", 0),))),
    ("Platform.interface_prefix", RECORD, platform_field(interface_prefix=lambda word: word)),
    (
        "Platform.variables",
        RECORD,
        platform_field(variables=lambda word: (Variable(word, "", ""),)),
    ),
    (
        "Platform.discouraged",
        RECORD,
        platform_field(discouraged=lambda word: (DISCOURAGED._replace(name=word),)),
    ),
    ("Platform.caches", RECORD, platform_field(caches=lambda word: (cache(name=word),))),
    ("Gpu.pci", RECORD, table_field("gpus", Gpu("a", "1", 0), pci=lambda word: word)),
    ("Gpu.cores", RECORD, table_field("gpus", Gpu("a", "1", 0), cores=lambda word: word)),
    ("Gpu.numa", RECORD, table_field("gpus", Gpu("a", "1", 0), numa=7)),
    ("Gpu.reserved", RECORD, table_field("gpus", Gpu("a", "1", 0), reserved=lambda word: word)),
    *(
        (
            f"Variable.{each}",
            RECORD,
            table_field("variables", VARIABLE, **{each: lambda word: word}),
        )
        for each in ("name", "reason", "source", "value", "value_from")
    ),
    (
        "Variable.when",
        RECORD,
        table_field("variables", VARIABLE, when=lambda word: {"rocm": word}),
    ),
    (
        "Variable.unless_set",
        RECORD,
        table_field("variables", VARIABLE, unless_set=lambda word: (word,)),
    ),
    *(
        (
            f"Discouraged.{each}",
            RECORD,
            table_field("discouraged", DISCOURAGED, **{each: lambda word: word}),
        )
        for each in ("name", "reason", "source", "hint")
    ),
    *(
        (
            f"Discouraged.{each}",
            RECORD,
            table_field("discouraged", DISCOURAGED, **{each: lambda word: (word,)}),
        )
        for each in ("values", "allowed_values")
    ),
    (
        "Discouraged.when",
        RECORD,
        table_field("discouraged", DISCOURAGED, when=lambda word: {"rocm": word}),
    ),
    *(
        (f"CacheFolder.{each}", RECORD, table_field("caches", cache(), **{each: lambda word: word}))
        for each in ("name", "folder", "storage", "reason", "source")
    ),
    ("Setting.origin", RECORD, set_to_its_default),
]
"""For each field of what users write: what its change rebuilds."""
