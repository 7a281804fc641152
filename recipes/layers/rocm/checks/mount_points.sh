#!/usr/bin/env bash
# /// check
# summary: every folder that LUMI binds is there, so that any engine can bind it
# hint: rebuild the layer rocm
# ///
set -euo pipefail

for folder in /var/spool/slurmd /boot /pfs /scratch /projappl /project /flash /appl /user-software /runscripts; do
    if [[ ! -d $folder ]]; then
        echo "$folder not found, which LUMI binds" >&2
        exit 1
    fi
done
echo "every folder that LUMI binds is there"
