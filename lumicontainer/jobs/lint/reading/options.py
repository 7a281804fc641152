"""The options of programs that start ranks: their long names, and whether a value follows."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from lumicontainer.jobs.lint.reading.model import OptionUse, Span, Word


class OptionTable(NamedTuple):
    """Hold the options of a program."""

    valued: frozenset[str]
    flags: frozenset[str]
    """Options without a value, or with one behind ``=`` only."""
    letters: Mapping[str, str]
    """The long names of single letters."""
    underscores: bool = False
    """Whether ``_`` stands for ``-`` as well."""
    values_by_default: bool = False
    """Whether an unknown option has a value."""

    @property
    def names(self) -> frozenset[str]:
        """Return all long names."""
        return self.valued | self.flags


_LONGEST = 40
"""Letters of an option's name."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _letters(text: str) -> Mapping[str, str]:
    return {pair[0]: pair[2:] for pair in text.split()}


_SHARED_VALUED = """
account acctg-freq bb bbf begin chdir cluster-constraint clusters comment constraint container
container-id core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot
dependency distribution error exclude export export-file extra extra-node-info gid gpu-bind
gpu-freq gpus
gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name licenses mail-type
mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile nodelist nodes
ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output partition
power prefer priority qos reservation signal sockets-per-node switches thread-spec
threads-per-core time time-min tmp tres-bind tres-per-task uid wckey
autocomplete cluster context mem-update ntasks-per-tres profile resources runtime segment
tasks-per-node
"""
_SHARED_FLAGS = """
contiguous exclusive help hold ignore-pbs nice no-kill overcommit oversubscribe propagate quiet
reboot resv-ports spread-job test-only usage use-min-nodes verbose version x11
consolidate-segments oom-kill-step spread-segments stepmgr
"""
_SHARED_LETTERS = """
A=account D=chdir M=clusters C=constraint S=core-spec c=cpus-per-task d=dependency m=distribution
e=error x=exclude B=extra-node-info G=gpus i=input J=job-name L=licenses F=nodefile w=nodelist
N=nodes n=ntasks o=output p=partition q=qos t=time k=no-kill O=overcommit s=oversubscribe Q=quiet
v=verbose V=version H=hold h=help b=begin
"""
# Slurm, src/common/slurm_opt.c; sbatch(1) and srun(1).
SBATCH = OptionTable(
    _words(_SHARED_VALUED + " array batch kill-on-invalid-dep wait-all-nodes wrap"),
    _words(_SHARED_FLAGS + " external get-user-env no-requeue requeue parsable wait"),
    {**_letters(_SHARED_LETTERS), "a": "array", "W": "wait"},
)
SRUN = OptionTable(
    _words(
        _SHARED_VALUED
        + """ cpu-bind epilog jobid max-threads mpi msg-timeout prolog relative
        slurmd-debug task-epilog task-prolog threads treewidth wait het-group accel-bind
        bcast-exclude cpu_bind ignore-signals pack-group"""
    ),
    _words(
        _SHARED_FLAGS
        + """ bcast compress disable-status exact immediate interactive
        kill-on-bad-exit label multi-prog no-allocate overlap preserve-env pty quit-on-interrupt
        send-libs unbuffered whole async debugger-test external-launcher parsable
        wait-for-children"""
    ),
    {
        **_letters(_SHARED_LETTERS),
        **_letters("W=wait K=kill-on-bad-exit l=label I=immediate u=unbuffered T=threads"),
        **_letters("r=relative X=disable-status E=preserve-env Z=no-allocate"),
    },
)
# SingularityCE 4.1 and Apptainer 1.4, exec --help.
ENGINE = OptionTable(
    _words("""
        add-caps app apply-cgroups bind blkio-weight blkio-weight-device cpu-shares cpus
        cpuset-cpus cpuset-mems cwd dns docker-host docker-password docker-username drop-caps env
        env-file fusemount home hostname memory memory-reservation memory-swap mount network
        network-args no-mount overlay pem-path pids-limit pwd scratch security workdir
    """),
    _words("""
        allow-setuid cleanenv compat contain containall disable-cache docker-login fakeroot ipc
        keep-privs net no-compat no-eval no-home no-https no-init no-pid no-privs no-umask nv
        nvccli oci pid rocm sharens unsquash userns uts vm writable writable-tmpfs
    """),
    _letters(
        "B=bind H=home W=workdir S=scratch o=overlay e=cleanenv c=contain C=containall "
        "f=fakeroot w=writable p=pid i=ipc n=net u=userns"
    ),
)
# PyTorch, torch/distributed/run.py.
TORCHRUN = OptionTable(
    _words("""
        nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts
        monitor-interval start-method event-log-dir role log-dir redirects tee local-ranks-filter
        node-rank master-addr master-port local-addr logs-specs numa-binding signals-to-handle
    """),
    _words("standalone module no-python run-path virtual-local-rank help"),
    _letters("m=module r=redirects t=tee h=help"),
    underscores=True,
)
# Accelerate, commands/launch.py.
ACCELERATE = OptionTable(
    _words("num-processes num-machines machine-rank main-process-ip main-process-port"),
    _words("multi-gpu use-deepspeed use-fsdp use-megatron-lm module no-python cpu tpu debug quiet"),
    _letters("m=module q=quiet"),
    underscores=True,
    values_by_default=True,
)
# DeepSpeed, launcher/runner.py.
DEEPSPEED = OptionTable(
    _words(
        "hostfile include exclude num-nodes num-gpus master-port master-addr node-rank launcher"
    ),
    _words("""
        no-local-rank no-ssh no-ssh-check no-python module force-multi save-pid elastic-training
        bind-cores-to-rank
    """),
    _letters("H=hostfile i=include e=exclude"),
    underscores=True,
    values_by_default=True,
)
# lumi-entry --help.
ENTRY = OptionTable(
    _words("launcher nproc launcher-args gpu-visibility log-dir profile profiler"),
    _words("""
        print-env json allow-gpu-sharing no-bind affinity-report smi preflight remove-caches
        version help
    """),
    {},
)


SplitOptions: TypeAlias = tuple[tuple[OptionUse, ...], int, bool]


def split_options(words: Sequence[Word], table: OptionTable) -> SplitOptions:
    """Return the options that begin ``words``, how many words they are, and if all are known."""
    options: list[OptionUse] = []
    index, complete = 0, True
    while index < len(words):
        word = words[index]
        if word.many:
            complete, index = False, index + 1
            continue
        if word.text == "--":
            return tuple(options), index + 1, complete
        if not word.text.startswith("-") or word.text == "-":
            break
        following = words[index + 1] if index + 1 < len(words) else None
        read, used, known = _read_option(word, following, table)
        options += read
        complete &= known
        index += used
    return tuple(options), min(index, len(words)), complete


def _read_option(
    word: Word, following: Word | None, table: OptionTable
) -> tuple[list[OptionUse], int, bool]:
    if not word.text.startswith("--") and word.text[1:2] in table.letters:
        return _read_letters(word, following, table)
    name, equals, value = word.text.lstrip("-").partition("=")
    long = long_name(name, table)
    if equals:
        return [OptionUse(long, _tail(word, value), word.span)], 1, True
    if long in table.valued or (long not in table.flags and table.values_by_default):
        if following is None:
            return [OptionUse(long, None, word.span)], 1, True
        span = Span(word.span.start, following.span.end)
        return [OptionUse(long, following, span)], 2, True
    return [OptionUse(long, None, word.span)], 1, long in table.flags


def _read_letters(
    word: Word, following: Word | None, table: OptionTable
) -> tuple[list[OptionUse], int, bool]:
    options: list[OptionUse] = []
    for index, letter in enumerate(word.text[1:], start=1):
        name = table.letters.get(letter)
        if name is None:
            return options, 1, False
        rest = word.text[index + 1 :]
        if name in table.valued:
            if rest:
                return [*options, OptionUse(name, _tail(word, rest), word.span)], 1, True
            if following is None:
                return [*options, OptionUse(name, None, word.span)], 1, True
            span = Span(word.span.start, following.span.end)
            return [*options, OptionUse(name, following, span)], 2, True
        if rest[:1].isdigit():
            return [*options, OptionUse(name, _tail(word, rest), word.span)], 1, True
        options.append(OptionUse(name, None, word.span))
    return options, 1, True


def _tail(word: Word, value: str) -> Word:
    """Return the end of a word, which is the value of the option that begins it."""
    size = len(value.encode())
    plain = word.raw.endswith(value) and value
    begin = word.span.end - size if plain else word.span.start
    if not plain and (equals := word.raw.find("=")) >= 0:
        begin = word.span.start + len(word.raw[: equals + 1].encode())
    raw = word.raw.partition("=")[2] if "=" in word.raw else word.raw
    return word._replace(text=value, span=Span(begin, word.span.end), raw=raw)


_ALIASES = {"tasks-per-node": "ntasks-per-node", "cluster": "clusters", "cpu_bind": "cpu-bind"}
"""Second names of options (slurm_opt.c)."""


def long_name(name: str, table: OptionTable) -> str:
    """Return the whole name of an option that may be shortened, as getopt reads it."""
    if table.underscores:
        name = name.replace("_", "-")
    if name in table.names or len(name) > _LONGEST:
        return _ALIASES.get(name, name)
    matching = [each for each in table.names if each.startswith(name)]
    return matching[0] if len(matching) == 1 else name
