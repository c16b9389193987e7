//! The names that imports define.

use clk_syntax::ast;

/// Returns the name under which an `import` binds a module.
pub fn module_alias(import: &ast::Import) -> Option<ast::Name> {
    match (&import.items, &import.source) {
        (ast::ImportItems::Module { alias: Some(alias) }, _) => Some(alias.clone()),
        (ast::ImportItems::Module { alias: None }, ast::ImportSource::Path(path)) => path.last().cloned(),
        (ast::ImportItems::Module { alias: None }, ast::ImportSource::File { path, span }) => {
            let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
            let base = [".clk", ".cu", ".cuh"].iter().find_map(|extension| name.strip_suffix(extension));
            Some(ast::Name { text: base.unwrap_or(name).into(), span: *span })
        }
        (ast::ImportItems::Names(_), _) => None,
    }
}
