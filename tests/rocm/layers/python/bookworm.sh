#!/usr/bin/env bash
set -euo pipefail

sed 's/ sid / bookworm /' /etc/apt/sources.list >/etc/apt/sources.list.d/bookworm.list
printf 'Package: *\nPin: release n=bookworm\nPin-Priority: 100\n' >/etc/apt/preferences.d/bookworm
