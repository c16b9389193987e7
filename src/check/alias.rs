//! The names that imports bring.

use smol_str::SmolStr;

use crate::syntax::ast;

/// Returns the name under which an `import` binds a module.
pub fn module_alias(import: &ast::Import) -> Option<SmolStr> {
    match (&import.what, &import.source) {
        (ast::ImportWhat::Module { alias: Some(alias) }, _) => Some(alias.text.clone()),
        (ast::ImportWhat::Module { alias: None }, ast::ImportSource::Path(path)) => path.last().map(|n| n.text.clone()),
        (ast::ImportWhat::Module { alias: None }, ast::ImportSource::File { path, .. }) => {
            let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
            Some(name.strip_suffix(".clk").unwrap_or(name).into())
        }
        (ast::ImportWhat::Names(_), _) => None,
    }
}
