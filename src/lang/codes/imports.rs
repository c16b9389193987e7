//! E0290 to E0299: imports; W0010: definitions of a session.

use super::Page;

pub(crate) static PAGES: &[Page] = &[
    Page {
        code: "E0290",
        title: "an imported file cannot be read",
        text: "The path of an `import` starts at the folder of the importing file, and names the file with its ending.\n\n\
               ```clk fails\nimport \"./no_such_file.clk\"\n```\n\n\
               What belongs to the standard library is imported by name:\n\n```clk\nimport std.math\n```\n",
    },
    Page {
        code: "E0291",
        title: "a module that the standard library does not have",
        text: "```clk fails\nimport std.no_such_module\n```\n\n```clk\nimport std.math\n```\n",
    },
    Page {
        code: "E0292",
        title: "imports that go in a circle",
        text: "A module is read after the ones it imports, so two files cannot import each other, not even by way of others. \
               The message names the files of the circle. Move what both need into a third file that both import.\n",
    },
    Page {
        code: "E0293",
        title: "a module by name that is not of the standard library",
        text: "Only `std.…` is imported by name; your own modules are files.\n\n```clk fails\nimport shapes\n```\n\n\
               Write the path of the file, and `as` for the name it gets: `import \"./shapes.clk\" as shapes`.\n",
    },
    Page {
        code: "W0010",
        title: "a definition that no longer fits what it uses",
        text: "In a session, whatever uses a definition follows when you replace it: a kernel that calls `f` calls the new `f`. \
               What does not fit the new one is set aside. Its name means nothing until it is entered again, or until what it \
               uses fits again: then it comes back by itself.\n\nIn a script all definitions are checked together, so it never \
               has this warning.\n",
    },
];
