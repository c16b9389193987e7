#!/usr/bin/env bash
# Finds the `clk` of a workflow, and writes its path to the outputs of the step (`GITHUB_OUTPUT`). Uses the one that CLK
# names, else the one on the path, else the release VERSION of the repository REPOSITORY.
set -euo pipefail

clk=${CLK:-}
if [ -z "$clk" ] && command -v clk >/dev/null; then
    clk=$(command -v clk)
fi
if [ -z "$clk" ]; then
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64) target=x86_64-unknown-linux-gnu ;;
        Linux-aarch64) target=aarch64-unknown-linux-gnu ;;
        Darwin-arm64) target=aarch64-apple-darwin ;;
        Darwin-x86_64) target=x86_64-apple-darwin ;;
        *)
            echo "::error title=Clk::there is no release of Clk for $(uname -s) $(uname -m): put clk on the path"
            exit 1
            ;;
    esac
    folder=${RUNNER_TEMP:-/tmp}/clk
    mkdir -p "$folder"
    gh release download "$VERSION" --repo "$REPOSITORY" --pattern "clk-*-$target.tgz" --dir "$folder"
    tar -xzf "$folder"/clk-*-"$target".tgz -C "$folder" --strip-components 1
    clk=$folder/bin/clk
fi
"$clk" --version
echo "clk=$clk" >>"$GITHUB_OUTPUT"
