#!/usr/bin/env bash
# Checks the programs of a repository: a step of the action `action.yml`. Writes a SARIF log, and text to the log of the job.
#
# Environment variables: CLK, the program; PATH_LIST, files and folders, one per line; PROVE and TEST, true
# or false; SARIF and JUNIT, the files to write.
set -uo pipefail

paths=()
while IFS= read -r path; do
    if [ -n "$path" ]; then
        paths+=("$path")
    fi
done <<<"$PATH_LIST"
if [ ${#paths[@]} -eq 0 ]; then
    echo "::error title=Clk::the input paths is empty"
    exit 2
fi

# A folder stands for its .clk files; the .cu files in it that define kernels are added.
cuda=()
folders=()
for path in "${paths[@]}"; do
    if [ -d "$path" ]; then
        folders+=("$path")
    fi
done
if [ ${#folders[@]} -gt 0 ]; then
    while IFS= read -r -d '' file; do
        cuda+=("$file")
    done < <(grep -rlw --null --include='*.cu' --exclude-dir=.git __global__ -- "${folders[@]}" | sort -z)
fi
options=(--format sarif)
if [ "$PROVE" = true ]; then
    options+=(--prove)
fi

failed=0
"$CLK" check "${options[@]}" -- "${paths[@]}" ${cuda[@]+"${cuda[@]}"} >"$SARIF" || failed=$?
if [ "$failed" -gt 1 ]; then
    echo "::error title=Clk::clk check ended with exit code $failed"
    exit "$failed"
fi
if [ "$TEST" = true ]; then
    "$CLK" test --format junit -- "${paths[@]}" >"$JUNIT" || failed=$?
fi
exit "$failed"
