# Print what a job does on this node: probe.sh JOB SECONDS ROOT. Every SECONDS again, once if 0.
# Lines of words with tabs between them; the first word is the host, the second one what follows.
# shellcheck shell=bash
job=$1 seconds=$2 root=$3
host=$SLURMD_NODENAME

say() {
    local IFS=$'\t'
    printf '%s\n' "$host"$'\t'"$*"
}

# The control group of the job, of which this step's is a part; without one, the node's memory.
print_memory() {
    local group folder used='' limit=''
    while IFS=: read -r _ _ group; do
        for folder in "$root/sys/fs/cgroup" "$root/sys/fs/cgroup/memory"; do
            folder+=${group%%"/job_$job"*}/job_$job
            [[ -r $folder/memory.current ]] && used=$(<"$folder/memory.current") limit=$(<"$folder/memory.max")
            [[ -r $folder/memory.usage_in_bytes ]] && used=$(<"$folder/memory.usage_in_bytes") limit=$(<"$folder/memory.limit_in_bytes")
        done
    done <"$root/proc/self/cgroup"
    say memory "$used" "$limit"
    say node "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' "$root/proc/meminfo")" \
        "$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' "$root/proc/meminfo")"
}

# The driver's files, which rocm-smi reads too.
print_gpus() {
    local device
    for device in "$root"/sys/class/drm/card*/device; do
        [[ -r $device/mem_info_vram_total ]] || continue
        say gpu "$(basename "$(readlink -f "$device")")" "$(cat "$device/gpu_busy_percent" 2>/dev/null)" \
            "$(<"$device/mem_info_vram_used")" "$(<"$device/mem_info_vram_total")"
    done
}

# Each process of a rank has the variable RANK of lumi-entry and torchrun; others have srun's.
print_processes() {
    local file pid variables stat
    while IFS= read -r file; do
        pid=${file%/environ} pid=${pid##*/}
        variables=$(grep -azE '^(RANK|SLURM_PROCID|SLURM_STEP_ID|SLURMD_NODENAME)=' "$file" 2>/dev/null | tr '\n\t\0' '?? ')
        stat=$(cat "${file%environ}stat" 2>/dev/null)
        # After the name: state, parent, ... and in field 24 of all the pages in memory.
        read -ra stat <<<"${stat##*) }"
        [[ ${#stat[@]} -gt 21 && " $variables" == *" SLURMD_NODENAME=$host "* ]] || continue
        # The batch script is no task of a step, and has its variables but for this one.
        [[ " $variables" == *" SLURM_STEP_ID="* && " $variables" != *" SLURM_STEP_ID=$SLURM_STEP_ID "* ]] ||
            continue
        say process "$pid" "${stat[1]}" "${stat[0]}" "${stat[21]}" "$variables"
        print_log "$pid"
    done < <(grep -lzsxF "SLURM_JOB_ID=$job" "$root"/proc/[0-9]*/environ)
}

print_log() {
    local file name
    for file in "$root/proc/$1/fd/1" "$root/proc/$1/fd/2"; do
        [[ -f $file && -r $file ]] || continue
        name=$(readlink "$file" | tr -d '\n\t')
        [[ -z ${seen["x$name"]:-} ]] || continue
        seen["x$name"]=yes
        say log "$1" "$(stat -L -c '%Y' "$file")" "$name" \
            "$(tail -c 4096 "$file" 2>/dev/null | tr -d '\0' | grep -a . | tail -n 1)"
    done
}

while :; do
    declare -A seen=()
    print_memory
    print_gpus
    print_processes
    say end
    ((seconds)) || break
    sleep "$seconds"
done
