//! The diagnostic codes and their pages for `clk explain`: one Markdown file per code, such as `E0610.md`.
//!
//! The first line of a file is `# CODE: title`; the rest is the text. A ```` ```clk fails ```` block is a program with
//! the error, and a test checks that its diagnostic has this code. A ```` ```clk ```` block is a correct program, and a
//! test checks that it has no errors.

#![allow(rustdoc::private_intra_doc_links)]

/// The `clk explain` page of a diagnostic code.
pub struct Page {
    /// The code, such as `E0301` or `W0002`.
    pub code: &'static str,
    /// A brief description of the error.
    pub title: &'static str,
    /// The page in Markdown, without the heading.
    pub text: &'static str,
}

impl Page {
    /// Splits a file into its heading and its text. A malformed heading is a compile-time error.
    const fn new(code: &'static str, file: &'static str) -> Page {
        let bytes = file.as_bytes();
        let start = "# E0000: ".len();
        let mut i = 0;
        while i < code.len() {
            assert!(bytes[i + 2] == code.as_bytes()[i], "the heading has another code than the name of the file");
            i += 1;
        }
        assert!(bytes[0] == b'#' && bytes[start - 2] == b':', "a page begins with `# CODE: title`");
        let mut end = start;
        while bytes[end] != b'\n' {
            end += 1;
        }
        let (title, text) = file.split_at(end);
        Page { code, title: title.split_at(start).1, text }
    }
}

macro_rules! pages {
    ($($code:literal),* $(,)?) => {
        &[$(Page::new($code, include_str!(concat!($code, ".md")))),*]
    };
}

/// All pages, ordered by code.
static PAGES: &[Page] = pages! {
    "E0101", "E0102", "E0103", "E0104", "E0105", "E0106", "E0107", "E0109", "E0110", "E0111", "E0112", "E0113", "E0114",
    "E0115", "E0116", "E0117", "E0118", "E0119", "E0120", "E0121", "E0122", "E0123", "E0124", "E0125", "E0126", "E0127",
    "E0128", "E0129", "E0130", "E0131", "E0132", "E0133", "E0134", "E0135", "E0136", "E0137", "E0138", "E0139", "E0140",
    "E0141",
    "E0201", "E0202", "E0203", "E0204", "E0205", "E0206", "E0207", "E0208", "E0209", "E0290", "E0291", "E0292", "E0293",
    "E0294",
    "E0301", "E0302", "E0303", "E0304", "E0305", "E0306", "E0307", "E0308", "E0309", "E0310", "E0311", "E0312", "E0313",
    "E0314", "E0315", "E0316", "E0317", "E0318", "E0319", "E0320", "E0321", "E0322", "E0323", "E0324", "E0325", "E0326",
    "E0327", "E0328", "E0329", "E0330", "E0331", "E0332", "E0333", "E0334", "E0335",
    "E0401", "E0402", "E0403", "E0404", "E0405", "E0406", "E0407", "E0408", "E0409", "E0410", "E0411", "E0412", "E0413",
    "E0414", "E0415", "E0416", "E0417", "E0480", "E0481", "E0482", "E0483", "E0484", "E0485", "E0486", "E0487", "E0488",
    "E0489", "E0490", "E0491", "E0492", "E0493",
    "E0501", "E0502", "E0503", "E0504", "E0505", "E0506", "E0507", "E0508", "E0509", "E0510", "E0511", "E0512", "E0513",
    "E0514", "E0515", "E0516", "E0517", "E0518", "E0519", "E0520", "E0521", "E0522", "E0523", "E0524", "E0525", "E0526",
    "E0527", "E0530", "E0540", "E0541", "E0542", "E0543", "E0544", "E0545", "E0546", "E0547", "E0550", "E0551", "E0552",
    "E0553", "E0554", "E0595", "E0599",
    "E0601", "E0602", "E0603", "E0604", "E0605", "E0606", "E0607", "E0608", "E0609", "E0610", "E0611", "E0612", "E0613",
    "E0614", "E0615", "E0616", "E0617", "E0618", "E0619", "E0620", "E0621", "E0622", "E0623",
    "E0701", "E0702", "E0703", "E0710", "E0711", "E0712", "E0713", "E0714", "E0715", "E0716", "E0717", "E0718", "E0720",
    "E0721", "E0722", "E0723", "E0730", "E0731", "E0732", "E0740", "E0741", "E0742", "E0743",
    "E0801", "E0802", "E0803", "E0804", "E0805", "E0806", "E0807", "E0808", "E0809",
    "E0850", "E0851", "E0852",
    "E0999",
    "W0001", "W0002", "W0003", "W0004", "W0005", "W0006", "W0007", "W0008", "W0009", "W0010", "W0011", "W0012", "W0013", "W0014",
    "W0015",
    "W0101", "W0102", "W0103",
    "W0601", "W0602", "W0603", "W0604", "W0605", "W0606", "W0607", "W0608", "W0609", "W0610", "W0611", "W0612",
    "W0721",
    "W0850", "W0851", "W0852", "W0853", "W0854", "W0856", "W0857", "W0858",
    "W0901", "W0902", "W0903", "W0904", "W0905", "W0906", "W0907", "W0908",
};

/// Returns all pages, ordered by code.
pub fn pages() -> impl Iterator<Item = &'static Page> {
    PAGES.iter()
}

/// Returns the page of a code, ignoring case.
pub fn find(code: &str) -> Option<&'static Page> {
    pages().find(|p| p.code.eq_ignore_ascii_case(code))
}
