//! Finds the built page. Its absence is an error that names the remedy, not a page without it.

use std::path::Path;

fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let dist = Path::new(&root).join("../../web/dist");
    for file in ["index.html", "assets/app.js", "assets/app.css", "assets/app.js.gz", "assets/app.css.gz"] {
        let path = dist.join(file);
        println!("cargo:rerun-if-changed={}", path.display());
        if !path.is_file() {
            println!("cargo:warning=the page of the monitor is not built: {} is missing", path.display());
            println!("cargo:warning=run `make web` (or `npm ci && npm run build` in web/) and build again");
            panic!("the page of the monitor is not built: run `make web`");
        }
    }
    println!("cargo:rustc-env=FOREBAY_WEB_DIST={}", dist.display());
}
