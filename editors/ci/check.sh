#!/usr/bin/env bash
# Checks the programs of a repository: a step of the action `action.yml`. Writes a SARIF log, and text to the log of the job.
#
# Environment variables: CLK, the program; CLK_PATHS, files and folders, one per line; CLK_PROVE and CLK_TEST, true or
# false; CLK_SARIF and CLK_JUNIT, the files to write.
set -uo pipefail

paths=()
while IFS= read -r path; do
    if [ -n "$path" ]; then
        paths+=("$path")
    fi
done <<<"$CLK_PATHS"
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
if [ "$CLK_PROVE" = true ]; then
    options+=(--prove)
fi

failed=0
"$CLK" check "${options[@]}" -- "${paths[@]}" ${cuda[@]+"${cuda[@]}"} >"$CLK_SARIF" || failed=$?
if [ "$failed" -gt 1 ]; then
    echo "::error title=Clk::clk check ended with exit code $failed"
    exit "$failed"
fi
if [ "$CLK_TEST" = true ]; then
    "$CLK" test --format junit -- "${paths[@]}" >"$CLK_JUNIT" || failed=$?
fi
exit "$failed"
