//! The web interface: a page and its modules, as files in the program. What they ask is the HTTP API's.
//!
//! The modules are what is written in `web/`: no step makes others of them. The page is at the root; all else is below
//! `ui/HASH`, where `HASH` is the digest of all files, so that a browser keeps it for good and asks for it anew when
//! another version serves.

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The content policy of the page: nothing but what is served here, and nothing that is made of text.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     font-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; \
     trusted-types 'none'";

/// The folder below which everything but the page is.
pub const FOLDER: &str = "ui";

/// A file.
#[derive(Debug)]
pub struct File {
    /// Its path, with `/` between its parts.
    pub name: &'static str,
    /// Its bytes.
    pub plain: &'static [u8],
    /// The same in gzip.
    pub gzip: &'static [u8],
}

impl File {
    /// Its media type.
    pub fn kind(&self) -> &'static str {
        match self.name.rsplit_once('.') {
            Some((_, "html")) => "text/html; charset=utf-8",
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }

    /// It is the page at the root, which names the digest of all others and is asked for anew each time.
    pub fn is_page(&self) -> bool {
        self.name == "index.html"
    }
}

/// The file of a path, in its decoded parts; none: there is none.
pub fn find(path: &[String]) -> Option<&'static File> {
    let named = |name: &str| FILES.iter().find(|file| file.name == name);
    match path {
        [] => named("index.html"),
        [root] if root.is_empty() || root == "index.html" => named("index.html"),
        [folder, hash, rest @ ..] if folder == FOLDER && hash == HASH && !rest.is_empty() => {
            named(&rest.join("/")).filter(|file| !file.is_page())
        }
        _ => None,
    }
}

/// Every file.
pub fn files() -> &'static [File] {
    FILES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn files_are_found_by_their_paths() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(find(&path(text)).map(|file| file.name), expected, "{text}");
        };
        check("", Some("index.html"));
        check("index.html", Some("index.html"));
        check(&format!("ui/{HASH}/app.js"), Some("app.js"));
        check(&format!("ui/{HASH}/pages/overview.js"), Some("pages/overview.js"));
        check(&format!("ui/{HASH}/index.html"), None);
        check(&format!("ui/{HASH}"), None);
        check(&format!("ui/{HASH}/"), None);
        check("ui/0/app.js", None);
        check("app.js", None);
        check("api", None);
    }

    #[test]
    fn the_page_names_files_that_there_are() {
        let page = std::str::from_utf8(find(&path("")).unwrap().plain).unwrap();
        assert!(!page.contains("HASH") && !page.contains("PRELOADS"));
        let names = page.split('"').filter(|text| text.starts_with("ui/"));
        assert!(names.clone().count() > 5);
        for name in names {
            assert!(find(&path(name)).is_some(), "{name}");
        }
    }

    #[test]
    fn nothing_in_the_modules_makes_code_of_text() {
        for file in files().iter().filter(|file| file.name.ends_with(".js") || file.is_page()) {
            let text = std::str::from_utf8(file.plain).unwrap();
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "style=",
                "<style",
            ] {
                assert!(!text.contains(word), "{} has {word}", file.name);
            }
            assert!(file.name == "api.js" || !text.contains(" fetch("), "{} fetches by itself", file.name);
            let lines = text.lines().count();
            assert!(lines < 400, "{} has {lines} lines: which two nouns does it hold?", file.name);
        }
    }

    #[test]
    fn all_of_it_is_small() {
        let bytes: usize = files().iter().map(|file| file.gzip.len()).sum();
        assert!(bytes < 150 << 10, "{bytes} bytes in gzip");
    }
}
