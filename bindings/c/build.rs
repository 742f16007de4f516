//! How libforebay.so is linked: its name for the dynamic linker, so that what has the same name can stand in
//! for it; and that it stays where it is once loaded, for its threads run in it whatever dlclose says.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libforebay.so.0");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
