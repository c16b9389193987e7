//! `clk cache`: the cache of compiled GPU kernels.

use super::args::CacheAction;
use crate::cache::{Cache, folder};
use crate::context::AppContext;
use crate::exit;
use clk_base::source::SourceMap;
use clk_runtime::size;

pub(crate) fn perform(action: CacheAction, context: &mut AppContext) -> u8 {
    let Some(folder) = folder() else {
        context.console.error_line("error: there is no folder for a cache: set `CLK_CACHE_DIR`, or `HOME`");
        return exit::FAILURE;
    };
    if action == CacheAction::Dir {
        context.console.line(&folder.display().to_string());
        return exit::OK;
    }
    let cache = match Cache::existing(&folder) {
        Ok(Some(cache)) => cache,
        // The cache does not exist yet.
        Ok(None) => {
            context.console.line(if action == CacheAction::Clean {
                "removed 0 kernels, 0 bytes"
            } else {
                EMPTY_SUMMARY
            });
            return exit::OK;
        }
        Err(refusal) => {
            context.console.report(&refusal.diagnostic(&folder), &SourceMap::default());
            return exit::FAILURE;
        }
    };
    match action {
        CacheAction::Clean => {
            let (count, bytes) = cache.clean();
            context.console.line(&format!("removed {count} kernels, {}", size(bytes)));
        }
        CacheAction::List | CacheAction::Dir => list(&cache, context),
    }
    exit::OK
}

const EMPTY_SUMMARY: &str = "0 kernels, 0 bytes";

/// Lists the cached kernels, most recently used first, with their sizes and times of last use.
fn list(cache: &Cache, context: &mut AppContext) {
    let entries = cache.entries();
    let total = entries.iter().map(|entry| entry.bytes).sum();
    for entry in &entries {
        let name = entry.path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let short: String = name.chars().take(16).collect();
        let seconds = entry.last_used.elapsed().map_or(0, |age| age.as_secs());
        context.console.line(&format!("{short}  {:>10}  used {} ago", size(entry.bytes), ago(seconds)));
    }
    context.console.line(&format!("{} kernels, {}", entries.len(), size(total)));
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
