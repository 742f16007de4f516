//! Compiles `src/hooks.c` to a shared library, which the crate holds as bytes: it is loaded from memory, so that nothing is
//! to be installed and found beside the command.

use std::path::Path;

fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo says it");
    let made = Path::new(&out).join("hooks.so");
    let mut command = cc::Build::new().opt_level(2).pic(true).get_compiler().to_command();
    command.args(["-shared", "-o"]).arg(&made).arg("src/hooks.c");
    let done = command.status().unwrap_or_else(|e| panic!("cannot run the C compiler: {e}"));
    assert!(done.success(), "the C compiler refuses src/hooks.c: {done}");
    println!("cargo:rerun-if-changed=src/hooks.c");
}
