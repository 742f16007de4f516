//! Lets libraries that the command loads find what they call to report a wrong argument (`forebay_foreign`).

fn main() {
    for symbol in ["xerbla_", "cblas_xerbla"] {
        println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol={symbol}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
