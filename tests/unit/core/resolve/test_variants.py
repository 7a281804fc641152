"""A layer is put together from a variant, a provider and a version; a profile gives them values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model import GitSource, UrlSource
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.records import record_files, resolved_record
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.inputs import unpinned
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.errors import InputError

from ....conftest import CHECK, HELLO, Write
from ..schema.test_loading import layer_problems
from .test_order import error_of

Resolve = Callable[..., Resolved]
COMMIT, SHA = "89abcdef01" * 4, "0" * 64
USE = {"layers/greet/install.sh": 'ls "$sources"\n'}


def greet(resolved: Resolve, layer: str, *options: str) -> ResolvedLayer:
    return resolved({**USE, "layers/greet/layer.yaml": layer}, *options).layers[1]


def refusal(resolved: Resolve, layer: str, *options: str) -> str:
    return error_of(resolved, {**USE, "layers/greet/layer.yaml": layer}, *options)


VERSIONS = (
    "summary: x\nversion: '2'\npackages: {apt: [always]}\nversions:\n"
    "  '1': {packages: {apt: [one]}, environment: {V: one}, path: [/opt/one]}\n"
    "  '2': {packages: {apt: [two]}}\n"
)


def test_the_version_adds_what_belongs_to_it(resolved: Resolve) -> None:
    assert greet(resolved, VERSIONS).content.apt == ("always", "two")
    other = greet(resolved, VERSIONS, "greet.version=1").content
    assert (other.apt, other.path) == (("always", "one"), ("/opt/one",))
    assert other.environment == {"V": "one"}


def test_a_version_that_is_not_known_names_those_that_are(resolved: Resolve) -> None:
    text = refusal(resolved, VERSIONS, "greet.version=2.1")
    assert "layer 'greet' does not know the version '2.1'" in text
    assert "its versions are 1, 2" in text
    assert "where: --set greet.version" in text


def test_each_part_in_use_must_know_the_version(resolved: Resolve) -> None:
    layer = VERSIONS + "variants: {cpu: {versions: {'1': {packages: {apt: [cpu-one]}}}}}\n"
    assert "does not know the version '2'" in refusal(resolved, layer)
    assert greet(resolved, layer, "greet.version=1").content.apt == ("always", "one", "cpu-one")


PROVIDERS = (
    "summary: x\nversion: '2'\nproviders:\n"
    "  source:\n    versions: {'2': {packages: {apt: [gcc]}}}\n"
    "  host:\n"
    "    binds: [{path: /opt/cray, reason: it is there},"
    " {path: /var/spool/slurmd, reason: again}]\n"
    "    host_libraries: [{path: /usr/lib64/libcxi.so.1, reason: it fits the driver,"
    " source: HPE}]\n"
)


def test_the_first_provider_is_the_default_and_a_word_chooses_another(resolved: Resolve) -> None:
    source, host = greet(resolved, PROVIDERS), greet(resolved, PROVIDERS, "greet.provider=host")
    assert (source.values()["provider"], source.content.apt) == ("source", ("gcc",))
    assert (host.values()["provider"], host.content.apt) == ("host", ())
    assert [bind.path for bind in host.content.binds] == ["/opt/cray", "/var/spool/slurmd"]


def test_a_provider_that_is_not_known_names_those_that_are(resolved: Resolve) -> None:
    text = refusal(resolved, PROVIDERS, "greet.provider=hots")
    assert "invalid value 'hots' of 'provider'" in text
    assert "choose one of: source, host" in text


def test_the_providers_of_a_variant_are_its_own_alone(resolved: Resolve) -> None:
    layer = "summary: x\nvariants: {cpu: {}, rocm: {providers: {source: {}, host: {}}}}\n"
    assert "provider" not in greet(resolved, layer).values()
    text = refusal(resolved, layer, "greet.provider=host")
    assert "layer 'greet' has no parameter 'provider'" in text


def test_a_provider_may_mean_to_do_without(resolved: Resolve) -> None:
    layer = PROVIDERS + "  none: {omit: there is no driver}\n"
    assert greet(resolved, layer).omitted == ""
    assert greet(resolved, layer, "greet.provider=none").omitted == "there is no driver"


DOCKED = "summary: x\nbootstrap: {{cpu: {{agent: docker, docker_image: '{image}'}}}}\n{more}\n"


def docked(image: str, more: str = "provides: {python: '3.12'}") -> dict[str, str]:
    return {"layers/tiny/layer.yaml": DOCKED.format(image=image, more=more)}


def test_the_version_of_a_base_chooses_its_image(resolved: Resolve) -> None:
    new = f"u:new@sha256:{SHA}"
    versions = f"{{old: {{docker_image: 'u:old'}}, new: {{docker_image: '{new}'}}}}"
    files = docked("u:any", f"provides: {{python: '3.12'}}\nversion: old\nversions: {versions}")
    assert resolved(files).bootstrap.image == "u:old"
    assert resolved(files, "tiny.version=new").bootstrap.image == new


def test_a_variant_may_require_more_than_its_layer(resolved: Resolve) -> None:
    files = {
        "layers/greet/layer.yaml": "summary: x\nvariants: {cpu: {requires: [other]}}\n",
        "layers/other/layer.yaml": "summary: x\npath: [/x]\n",
    }
    assert "'greet' requires 'other' before it" in error_of(resolved, {**USE, **files})
    files["hello.yaml"] = "summary: x\nbase: tiny\nlayers: [other, greet]\n"
    assert resolved(files).layers[2].requires == ("other",)


def test_a_variant_s_source_replaces_the_layer_s_of_its_name(resolved: Resolve) -> None:
    layer = (
        f"summary: x\nsources: [{{git: 'https://a.example/x', commit: {COMMIT}, folder: x}}]\n"
        "variants:\n  cpu:\n    sources:\n"
        f"      - {{git: 'https://b.example/x', commit: '0123456', folder: x}}\n"
        f"      - {{url: 'https://b.example/y.tgz', sha256: '{SHA}', file: y.tgz}}\n"
    )
    assert greet(resolved, layer).content.sources == (
        GitSource("https://b.example/x", "0123456", "x"),
        UrlSource("https://b.example/y.tgz", "y.tgz", SHA),
    )


def test_what_no_hash_holds_is_reported(resolved: Resolve) -> None:
    layer = (
        "summary: x\nsources:\n"
        f"  - {{git: 'https://a.example/x', commit: {COMMIT}, folder: whole}}\n"
        "  - {git: 'https://a.example/x', commit: '0123456', folder: short}\n"
        f"  - {{url: 'https://a.example/y', sha256: '{SHA}', file: known}}\n"
        "  - {url: 'https://a.example/y', file: open}\n"
    )
    result = resolved({**USE, "layers/greet/layer.yaml": layer})
    short, url = "short from https://a.example/x, commit 0123456", "open from https://a.example/y"
    assert unpinned(result, result.layers[1]) == (short, url)
    assert unpinned(result, result.layers[0]) == ("debootstrap bookworm",)


@pytest.mark.parametrize(("digest", "pinned"), [("", False), (f"@sha256:{SHA}", True)])
def test_an_image_is_pinned_by_its_digest(resolved: Resolve, digest: str, pinned: bool) -> None:
    result = resolved(docked(f"ubuntu:noble{digest}"))
    assert unpinned(result, result.layers[0]) == (() if pinned else ("image ubuntu:noble",))
    assert resolved_record(result)["base"]["image"] == f"ubuntu:noble{digest}"


def test_sources_that_no_file_uses_are_refused(resolved: Resolve) -> None:
    layer = "summary: x\nsources: [{url: 'https://a.example/y', file: y.tgz}]\n"
    files = {"layers/greet/layer.yaml": layer, "layers/greet/install.sh": "true\n"}
    assert "layer 'greet' names sources that it does not use" in error_of(resolved, files)


def test_a_variant_runs_its_own_script_and_gets_the_other_s_neither(resolved: Resolve) -> None:
    layer = "summary: x\nvariants: {cpu: {install: cpu/install.sh}, rocm: {install: rocm.sh}}\n"
    files = {
        "layers/greet/layer.yaml": layer,
        "layers/greet/install.sh": "exit 1\n",
        "layers/greet/rocm.sh": "exit 1\n",
        "layers/greet/rocm/fix.patch": "x\n",
        "layers/greet/cpu/install.sh": "echo right\n",
        "layers/greet/checks/rocm/gpu.sh": f"{CHECK}exit 1\n",
        "layers/greet/checks/any.sh": f"{CHECK}true\n",
    }
    result = resolved(files)
    assert [file.name for file in result.layers[1].files] == ["cpu/install.sh"]
    assert [file.name for file in result.layers[1].checks.files] == ["checks/any.sh"]
    assert [check.name for check in result.layers[1].checks.each] == ["greet/any"]
    program = make_plan(result, ()).steps[0].program
    assert "/layer && bash ./cpu/install.sh)\n" in program


PROFILES = {
    "hello.yaml": "summary: x\nbase: tiny\nprofiles: [gpu, calm, loud]\nlayers:\n  - greet\n",
    "profiles/gpu.yaml": "summary: x\naccelerator: rocm\nbase: nowhere\n",
    "profiles/calm.yaml": (
        "summary: quiet\naccelerator: cpu\nvalues: {greet: {greeting: calm}, spare: {a: b}}\n"
    ),
    "profiles/loud.yaml": "summary: x\naccelerator: cpu\nvalues: {greet: {greeting: LOUD}}\n",
    "layers/spare/layer.yaml": "summary: in no recipe here\n",
}


def profiled(write: Write, files: dict[str, str], profile: str = "", *options: str) -> Resolved:
    catalog = open_catalog(write({**HELLO, **PROFILES, **files}))
    return resolve(catalog.materials("hello", "workstation", profile), options)


def calm(text: str) -> dict[str, str]:
    return {"profiles/calm.yaml": f"summary: x\naccelerator: {text}\n"}


def greeting(result: Resolved) -> tuple[object, str]:
    return next((s.value, s.origin) for s in result.layers[1].settings if s.name == "greeting")


def test_the_first_profile_of_the_recipe_that_fits_the_platform_counts(write: Write) -> None:
    result = profiled(write, {})
    assert result.profile is not None
    assert result.profile.name == "calm"
    assert greeting(result) == ("calm", "profile")
    assert resolved_record(result)["profile"] == "calm"


def test_a_profile_that_is_asked_for_counts_first(write: Write) -> None:
    platform = {"envs/workstation.yaml": "summary: x\naccelerator: cpu\nprofile: loud\n"}
    assert greeting(profiled(write, platform)) == ("LOUD", "profile")
    assert greeting(profiled(write, platform, "calm")) == ("calm", "profile")


def test_an_option_counts_before_recipe_profile_variant_and_layer(write: Write) -> None:
    files = {"hello.yaml": HELLO["hello.yaml"]}
    assert greeting(profiled(write, files)) == ("hello", "layer")
    layer = HELLO["layers/greet/layer.yaml"] + "variants: {cpu: {parameters: {greeting: low}}}\n"
    files["layers/greet/layer.yaml"] = layer
    assert greeting(profiled(write, files)) == ("low", "variant")
    files["hello.yaml"] = PROFILES["hello.yaml"]
    assert greeting(profiled(write, files)) == ("calm", "profile")
    files["hello.yaml"] = PROFILES["hello.yaml"].replace("- greet", "- greet: {greeting: own}")
    assert greeting(profiled(write, files)) == ("own", "recipe")
    assert greeting(profiled(write, files, "", "greet.greeting=now")) == ("now", "option")


def test_a_profile_may_have_another_base(write: Write) -> None:
    other = HELLO["layers/tiny/layer.yaml"].replace("bookworm,", "trixie,")
    result = profiled(write, {**calm("cpu\nbase: other"), "layers/other/layer.yaml": other})
    assert [layer.name for layer in result.layers] == ["other", "greet"]
    assert result.bootstrap.release == "trixie"


@pytest.mark.parametrize(
    ("texts", "profile", "complaints"),
    [
        ({}, "lout", ["profile 'lout' not found", "where: --profile", "did you mean 'loud'?"]),
        ({}, "gpu", ["'gpu' is not for the platform 'workstation'", "choose one of: calm, loud"]),
        (
            *({"hello.yaml": PROFILES["hello.yaml"].replace("loud", "clam")}, ""),
            ["profile 'clam' not found", "hello.yaml:3:23", "did you mean 'calm'?"],
        ),
        (
            *(calm("cpu\nvalues: {spear: {a: b}}"), ""),
            ["layer 'spear' not found", "calm.yaml:3:10", "did you mean 'spare'?"],
        ),
        (
            *(calm("cpu\nvalues: {greet: {greting: b}}"), ""),
            ["no parameter 'greting'", "calm.yaml:3:", "did you mean 'greeting'?"],
        ),
        (
            *(calm("gpu\nvalue: {}"), ""),
            ["invalid accelerator 'gpu'", "profile has no key 'value'", "did you mean 'values'?"],
        ),
        (
            *(calm("cpu\nbase: tony"), ""),
            ["layer 'tony' not found", "calm.yaml:3:7", "did you mean 'tiny'?"],
        ),
    ],
)
def test_what_is_wrong_with_a_profile_is_reported_at_its_place(
    write: Write, texts: dict[str, str], profile: str, complaints: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        profiled(write, texts, profile)
    assert [each for each in complaints if each not in str(error.value)] == []


def test_the_record_names_what_the_image_needs_of_its_host(write: Write) -> None:
    platform = (
        "summary: x\naccelerator: cpu\n"
        "binds: [{path: /var/spool/slurmd, reason: PMI2}]\ninterface_prefix: hsn\n"
    )
    files = {"layers/greet/layer.yaml": PROVIDERS, "envs/workstation.yaml": platform}
    files["hello.yaml"] = "summary: x\nbase: tiny\nlayers: [greet: {provider: host}]\n"
    result = profiled(write, files)
    printed = resolved_record(result)
    assert printed["binds"] == [
        {"path": "/var/spool/slurmd", "reason": "PMI2"},
        {"path": "/opt/cray", "reason": "it is there"},
    ]
    library = {"path": "/usr/lib64/libcxi.so.1", "reason": "it fits the driver", "source": "HPE"}
    assert printed["host_libraries"] == [library]
    (file,) = (file for file in record_files(result) if file.name == "platform.json")
    assert b'"/opt/cray"' in file.content
    assert b'"/usr/lib64/libcxi.so.1"' in file.content


def problems_of(write: Write, layer: str, files: dict[str, str] | None = None) -> str:
    return layer_problems(write({**HELLO, **(files or {}), "layers/greet/layer.yaml": layer}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        (
            "sources: [{commit: '0123456', folder: x}]",
            ["exactly one of the keys", "4:11", "hint: add 'sdist:', 'git:' or 'url:'"],
        ),
        ("sources: [{git: x, url: y}]", ["exactly one of the keys", "hint: keep one of them"]),
        ("sources: [{gti: 'https://a.example', folder: x}]", ["did you mean 'git'?"]),
        ("sources: [{git: 'https://a.example', url: 'https://a.example'}]", ["exactly one"]),
        ("sources: [{git: 'https://a.example/x', folder: x}]", ["a git source needs 'commit'"]),
        ("sources: [{url: 'http://a.example/x', file: x}]", ["comes by plain http", "its sha256"]),
        ("sources: [{url: 'https://a.example/$(id)', file: x}]", ["plain characters by https"]),
        ("sources: [{url: 'https://u:p w@a', file: x}]", ["plain characters by https"]),
        ("sources: [{url: 'https://a.example/x', file: ../x}]", ["a plain name"]),
        ("sources: [{url: 'https://a.example/x', file: x, sha256: '12'}]", ["64 hexadecimal"]),
        ("sources: [{git: 'https://a.example', commit: main, folder: x}]", ["7 to 40 hexadecimal"]),
        ("sources: [{git: 'https://a.example', commit: 1234567, folder: x}]", ['write "1234567"']),
        (
            "sources: [{url: 'https://a.example', file: x}, {url: 'https://b.example', file: x}]",
            ["two sources are 'x'", "the first is at line 4"],
        ),
        ("versions: {2.1: {}}", ['write "2.1"']),
        ("versions: {'2': {verison: x}}", ["a version has no key 'verison'"]),
        ("providers: {host: {omits: x}}", ["a provider has no key 'omits'"]),
        ("versions: {'2': {docker_image: 'u:n'}}", ["cannot be an image", "layer.yaml:4:32"]),
        ("providers: {a: {}}\nparameters: {provider: {type: string, default: a}}", ["'provider'"]),
        ("variants: {cpu: {install: instal.sh}}", ["no file 'instal.sh'", "mean 'install.sh"]),
        ("variants: {cpu: {install: ../install.sh}}", ["a file of the layer's folder"]),
        (
            "variants: {cpu: {providers: {far: {apt_repositories: add.sh}}}}",
            ["the layer's folder has no file 'add.sh'"],
        ),
        ("variants: {cpu: {compile: rocm.sh}}", ["no file 'rocm.sh'", "layer.yaml:4:27"]),
        ("binds: [{path: x, reason: y}]", ["an absolute path"]),
        ("binds: [{path: /x}]", ["a bind needs 'reason'"]),
        (
            "bootstrap: {cpu: {agent: docker, docker_image: 'u:n', include: [curl]}}",
            ["'include' is for debootstrap", "packages.apt"],
        ),
        ("bootstrap: {cpu: {agent: docker, docker_image: 'u:n@sha256:12'}}", ["64 hexadecimal"]),
    ],
)
def test_wrong_parts_of_a_layer_are_reported(
    write: Write, text: str, complaints: list[str]
) -> None:
    printed = problems_of(write, f"summary: x\nversion: '2'\nsecrets: []\n{text}\n")
    assert [each for each in complaints if each not in printed] == []


def test_versions_need_one_that_is_taken_unless_another_is_asked_for(write: Write) -> None:
    layer = "summary: x\nvariants: {rocm: {providers: {a: {versions: {'1': {}}}}}}\n"
    assert "a layer with 'versions' needs 'version'" in problems_of(write, layer)


def test_the_lines_of_every_script_that_a_variant_names_are_weighed(write: Write) -> None:
    layer = "summary: x\nvariants: {rocm: {install: rocm.sh}}\n"
    script = {"layers/greet/rocm.sh": "true\n%post\n"}
    assert "layers/greet/rocm.sh:2:1" in problems_of(write, layer, script)


@pytest.mark.slow
def test_every_shipped_profile_gives_values_that_its_layers_take() -> None:
    catalog = open_catalog()
    for name in catalog.names("profile"):
        for use in catalog.profile(name).values:
            assert use.layer in catalog.names("layer")
            assert catalog.layer(use.layer)
