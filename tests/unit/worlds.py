"""A plan's inputs with a value in every field that users write."""

from typing import Any, NamedTuple

from lumicontainer.core import model
from lumicontainer.core.model.layer import HostLibrary
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.decisions import Materials
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.core.yaml.nodes import Scalar
from lumicontainer.core.yaml.readers import Text
from lumicontainer.errors import Place

HERE, THERE = Place("here.yaml", 1), Place("there.yaml", 7, 3)


class World(NamedTuple):
    """Hold all from which a plan is made. Of its four layers ``layer`` is the second."""

    recipe: model.Recipe
    platform: model.Platform
    profile: model.Profile
    bootstrap: model.Bootstrap
    layer: model.Layer
    checks: model.Checks
    inside: tuple[model.LayerFile, ...]
    more: tuple[model.Layer, ...] = ()
    options: tuple[str, ...] = ()

    def plan(self) -> Plan:
        base = model.Layer(
            "tiny", "the base", HERE, content=model.Content(provides={"python": "3.11"})
        )
        base = base._replace(bootstrap=dict.fromkeys(("cpu", "rocm"), self.bootstrap))
        above = compiling("above", self.layer.name, "lower")
        others = (compiling("lower"), self.layer, compiling("beside", "lower"), above, *self.more)
        layers = {layer.name: layer for layer in (base, *others)}
        uses = (self.profile.base or self.recipe.base, *self.recipe.layers)
        known = [*layers, "unused", another("unused")]
        documents = (self.recipe, self.platform, uses, layers, known, self.profile, self.checks)
        return make_plan(resolve(Materials(*documents), self.options), self.inside)

    def with_layer(self, **changes: Any) -> "World":
        return self._replace(layer=self.layer._replace(**changes))

    def with_layers(self, *names: str) -> "World":
        uses = tuple(model.LayerUse(name, HERE) for name in names)
        return self._replace(recipe=self.recipe._replace(layers=uses))


def compiling(name: str, *requires: str) -> model.Layer:
    files = tuple(
        model.LayerFile(f"{script}.sh", 0o644, b"make") for script in ("compile", "install")
    )
    return model.Layer(name, "a layer", HERE, requires=requires, files=files)


def apt(package: str) -> model.Content:
    return model.Content(model.Packages(apt=(package,)))


def scalar(text: str) -> Scalar:
    return Scalar(HERE, text, plain=False)


def checks(owner: str) -> model.Checks:
    file = model.LayerFile("checks/a.sh", 0o644, b"true\n")
    limits = {"speed": model.Threshold("GB/s", "somebody measured it")}
    modes, imports = ("run",), ("torch",)
    check = model.Check(f"{owner}/a", file, "x", "y", thresholds=limits)
    check = check._replace(imports=imports, start_modes=modes, reads=("/usr/*",), each_path=True)
    return model.Checks((file,), (check,))


LAYER = model.Layer(
    "tool",
    "the layer that changes",
    HERE,
    version=Text("1.0"),
    versions={"1.0": apt("a"), "2.0": apt("b")},
    requires=(Text("lower"),),
    conflicts=(Text("unused"),),
    parameters=(
        model.Parameter("level", "string", "low", HERE, choices=("low", "high")),
        model.Parameter("fast", "boolean", False, HERE, unsupported={"rocm": "why"}),
        model.Parameter("version", "string", "1.0", HERE),
        model.Parameter("index", "string", "https://wheels.example/cpu", HERE),
        model.Parameter("index2", "string", "https://wheels.example/cpu", HERE),
        *(
            model.Parameter(f"of_{each}", "string", "", HERE)
            for each in ("recipe", "profile", "variant")
        ),
    ),
    content=model.Content(
        packages=model.Packages(apt=("tar",), python=("six==1.0",)),
        apt_repositories="add.sh",
        sources=(
            model.SdistSource("numpy", "ab"),
            model.GitSource("https://git.example/tool", "0" * 40, "tool", ("inner",)),
            model.UrlSource("https://files.example/x.tgz", "x.tgz", "0" * 64),
        ),
        environment={"MODE": "x", "PLACE": "y"},
        path=("/opt/tool/bin",),
        prepend={"LIBRARIES": ("/opt/tool/lib",)},
        provides={"glibc": "2.36"},
        apt_versions={"python": "3.11"},
        binds=(model.Bind("/x", "why"),),
        host_libraries=(HostLibrary("/y", "why"),),
        pip_installs=(model.PipInstall("wheel", "index"),),
        locked=("idna==3.1",),
        indexed={"https://wheels.example": ("torch==2.9",)},
        built=(model.BuiltSource(("held==1.0",), ("scm==8.0",)),),
        apt_hashes=("make=4.3 " + "0" * 64,),
    ),
    providers={
        "first": model.Provider(apt("c"), {"1.0": apt("d")}),
        "second": model.Provider(apt("e"), omit="why"),
    },
    variants={
        "cpu": model.Variant(
            content=apt("f"),
            versions={"1.0": apt("g")},
            providers={"first": model.Provider(apt("h"))},
            parameters={"of_variant": scalar("x")},
            requires=(Text("lower"),),
        ),
        "rocm": model.Variant(apt("i")),
    },
    bootstrap={"cpu": model.Bootstrap("docker", image="debian:bookworm")},
    files=tuple(
        model.LayerFile(name, 0o644, b'ls "$sources"\n')
        for name in ("install.sh", "compile.sh", "finish.sh", "cpu/a.patch", "rocm/a.patch")
    ),
    checks=checks("tool"),
    secrets=("token",),
    not_reproducible={"/opt": "why"},
)
WHEN = {"rocm": "<6.2"}
WORLD = World(
    model.Recipe(
        *("image", "an image", HERE, model.LayerUse("tiny", HERE)),
        layers=(
            model.LayerUse("lower", HERE),
            model.LayerUse("tool", HERE, {"of_recipe": scalar("x")}),
            model.LayerUse("beside", HERE),
            model.LayerUse("above", HERE),
        ),
        text="text",
        profiles=(Text("set"),),
        missing=(Text("vllm"),),
    ),
    model.Platform(
        *("workstation", "any machine", "cpu", HERE),
        detect=("/x",),
        binds=(model.Bind("/z", "why"),),
        gpus=(model.Gpu("a", "1", 0),),
        variables=(model.Variable("A", "why", "source", when=WHEN, unless_set=("B",)),),
        discouraged=(model.Discouraged("A", "why", "source", "hint", ("x",), ("y",), WHEN),),
        advised=(model.Advised("A", "x", "why", "source", WHEN),),
        caches=(model.CacheFolder("B", "folder", "node", "why", "source"),),
        slurm=model.Slurm(
            (model.Partition(Text("p"), 1, 1, 1, 1, 1, 1, 1, Text("rule"), "source"),),
            (model.Billing(Text("rule"), "hours", 1, 1, 1.0, "source"),),
            model.Share(1, 1, "source"),
            srun=(model.SrunOption("--mpi=pmi2", "why", "source"),),
        ),
    ),
    model.Profile(
        "set",
        "a set",
        HERE,
        "cpu",
        values=(model.LayerUse("tool", HERE, {"of_profile": scalar("x")}),),
    ),
    model.Bootstrap("debootstrap", "bookworm", (Text("python3"),), "debian:bookworm"),
    LAYER,
    checks("image"),
    inside=(model.LayerFile("a.py", 0o644, b"1\n"),),
)


def another(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, Place):
        return THERE
    if isinstance(value, Scalar):
        return value._replace(text=another(value.text))
    if isinstance(value, str | bytes):
        return value + (b"2" if isinstance(value, bytes) else "2")
    return not value if isinstance(value, bool) else (value or 0) + 1
