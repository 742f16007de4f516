//! Gives libforebay.so its name for the dynamic linker: what has the same name can stand in for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libforebay.so.0");
}
