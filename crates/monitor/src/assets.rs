//! The page, built by Vite from `web/` and embedded; nothing is fetched from anywhere.

/// A file of the page.
pub struct Asset {
    name: &'static str,
    /// Its type.
    pub mime: &'static str,
    /// Its bytes.
    pub plain: &'static [u8],
    /// Its bytes packed, when that pays.
    pub gzip: Option<&'static [u8]>,
}

/// The document.
pub const PAGE: Asset = Asset {
    name: "index.html",
    mime: "text/html; charset=utf-8",
    plain: include_bytes!(concat!(env!("FOREBAY_WEB_DIST"), "/index.html")),
    gzip: None,
};

const ASSETS: [Asset; 2] = [
    Asset {
        name: "app.js",
        mime: "text/javascript; charset=utf-8",
        plain: include_bytes!(concat!(env!("FOREBAY_WEB_DIST"), "/assets/app.js")),
        gzip: Some(include_bytes!(concat!(env!("FOREBAY_WEB_DIST"), "/assets/app.js.gz"))),
    },
    Asset {
        name: "app.css",
        mime: "text/css; charset=utf-8",
        plain: include_bytes!(concat!(env!("FOREBAY_WEB_DIST"), "/assets/app.css")),
        gzip: Some(include_bytes!(concat!(env!("FOREBAY_WEB_DIST"), "/assets/app.css.gz"))),
    },
];

/// The file of that name; the set is closed, no path is ever opened.
pub fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|a| a.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a first load may weigh.
    const BUDGET: usize = 120 * 1024;

    #[test]
    fn the_first_load_is_within_its_budget() {
        let packed: usize = ASSETS.iter().map(|a| a.gzip.map_or(a.plain.len(), <[u8]>::len)).sum();
        let total = packed + PAGE.plain.len();
        assert!(total <= BUDGET, "the page weighs {total} bytes; it may weigh {BUDGET}");
    }

    #[test]
    fn the_page_asks_for_nothing_from_elsewhere_and_runs_no_inline_script() {
        let page = std::str::from_utf8(PAGE.plain).unwrap();
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("//"), "{page}");
        assert!(!page.contains("src=\"/") && !page.contains("href=\"/"));
        assert!(!page.contains("<script>"));
    }

    #[test]
    fn only_files_of_the_page_are_found() {
        assert!(find("app.js").is_some() && find("../Cargo.toml").is_none() && find("index.html").is_none());
    }
}
