//! E0290 to E0299: imports; W0010: definitions of a session.

use super::Page;

pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0290",
        title: "an imported file cannot be read",
        text: "The path of an `import` is relative to the folder of the importing file, and includes the file name extension.\n\n\
               ```clk fails\nimport \"./no_such_file.clk\"\n```\n\n\
               Modules of the standard library are imported by name:\n\n```clk\nimport std.math\n```\n",
    },
    Page {
        code: "E0291",
        title: "a module that the standard library does not have",
        text: "```clk fails\nimport std.no_such_module\n```\n\n```clk\nimport std.math\n```\n",
    },
    Page {
        code: "E0292",
        title: "imports that go in a circle",
        text: "A module is compiled after the ones it imports, so files cannot import each other, directly or indirectly. \
               The message names the files of the cycle. Move what both need into a third file that both import.\n",
    },
    Page {
        code: "E0293",
        title: "a module by name that is not of the standard library",
        text: "By name, a program imports `std.…` and, in a project, what its `clk.toml` lists; other modules are files.\n\n\
               ```clk fails\nimport shapes\n```\n\n\
               Write the path of the file, and its name after `as`: `import \"./shapes.clk\" as shapes`.\n",
    },
    Page {
        code: "E0294",
        title: "a dependency of a project that is not there",
        text: "A program that lies in a project (a folder with a `clk.toml`, or one inside of it) imports by name the project itself and \
               the dependencies that `clk.toml` lists:\n\n\
               ```toml\nname = \"waves\"\n\n[dependencies]\nshapes = { path = \"../shapes\" }\n\
               noise = { git = \"https://example.org/noise.git\", tag = \"v1.0\" }\n```\n\n\
               `import shapes` is the file `shapes.clk` in the folder of that project, `import shapes.solid` its file `solid.clk`. \
               A dependency from a Git repository is used at the commit that `clk.lock` pins; `clk fetch` downloads it and writes that \
               file. No other command downloads anything.\n",
    },
    Page {
        code: "W0010",
        title: "a definition that no longer fits what it uses",
        text: "When you replace a definition in a session, its users are recompiled: a kernel that calls `f` calls the new `f`. \
               Users that no longer compile are set aside. Their names are undefined until they are entered again, or until \
               what they use fits again: then they are restored automatically.\n\nIn a script all definitions are compiled \
               together, so this warning does not occur.\n",
    },
];
