//! Lines of OpenMP, OpenACC and of the compiler that take what stands behind them. A directive behind one would be all
//! that it takes.

/// What such a line takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// A statement, whichever it is.
    Block,
    /// A loop, or an assignment, and nothing else.
    Own,
}

/// Those of OpenMP and OpenACC that stand for themselves.
const ALONE: [&str; 28] = [
    "allocate",
    "assumes",
    "barrier",
    "begin",
    "cache",
    "cancel",
    "cancellation",
    "declare",
    "depobj",
    "end",
    "enter",
    "error",
    "exit",
    "flush",
    "groupprivate",
    "init",
    "interop",
    "nothing",
    "requires",
    "routine",
    "scan",
    "set",
    "shutdown",
    "taskwait",
    "taskyield",
    "threadprivate",
    "update",
    "wait",
];
const LOOPS: [&str; 12] = [
    "atomic",
    "distribute",
    "do",
    "for",
    "fuse",
    "interchange",
    "loop",
    "reverse",
    "simd",
    "taskloop",
    "tile",
    "unroll",
];

/// By what stands behind `omp` or `acc`.
pub fn of_omp(text: &str) -> Takes {
    let text = text.to_ascii_lowercase();
    let names = &text[..text.find(['(', ',']).unwrap_or(text.len())];
    let names: Vec<&str> =
        names.split(|c: char| !c.is_ascii_alphabetic()).filter(|n| !n.is_empty()).collect();
    let Some(first) = names.first() else { return Takes::Nothing };
    let waits = *first == "ordered" && (text.contains("depend") || text.contains("doacross"));
    let moves = *first == "target" && names.get(1).is_some_and(|name| ALONE.contains(name));
    // In Fortran `paralleldo` is one word as well as two, and so is `endparallel`.
    let is_end = first.starts_with("end") || ALONE.contains(first);
    let is_loop = |name: &&str| LOOPS.contains(name) || name.ends_with("do") || name.contains("dosimd");
    match () {
        () if waits || moves || is_end => Takes::Nothing,
        () if names.iter().any(is_loop) => Takes::Own,
        () => Takes::Block,
    }
}

/// By what stands behind `#pragma`.
pub fn of_pragma(text: &str) -> Takes {
    let (first, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let second = rest.split(|c: char| !c.is_ascii_alphabetic()).find(|word| !word.is_empty());
    let name = first.split('(').next().unwrap_or_default();
    match (name, second) {
        ("omp" | "acc", _) => of_omp(rest),
        ("GCC", Some("ivdep" | "unroll" | "novector")) | ("clang", Some("loop")) => Takes::Own,
        ("unroll" | "nounroll" | "ivdep" | "simd" | "vector" | "novector" | "loop_count", _) => Takes::Own,
        _ => Takes::Nothing,
    }
}

/// Why a directive cannot stand behind such a line.
pub fn objection(line: usize, text: &str, takes: Takes) -> String {
    let (what, remedy) = match takes {
        Takes::Own => ("loop or assignment", "Move the directive before it, or into the loop"),
        _ => ("statement", "Put braces around what belongs to it, or move the directive before it"),
    };
    format!("`{text}` in line {line} takes the {what} behind it, which this directive would be. {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_takes_is_told_by_its_names() {
        for (takes, lines) in [
            (
                Takes::Block,
                "omp parallel|omp single nowait|omp target data map(to: a)|omp task|omp critical (for)|acc kernels|omp sections|omp section|omp ordered|acc data copy(a)|omp master",
            ),
            (
                Takes::Own,
                "omp parallel for|omp for|omp simd|omp atomic update|omp taskloop|acc parallel loop|omp target teams distribute|GCC ivdep|GCC unroll 4|unroll(4)|clang loop vectorize(enable)",
            ),
            (
                Takes::Nothing,
                "omp barrier|omp declare simd|omp target update to(a)|omp ordered depend(sink: i-1)|omp end declare target|once|pack(1)|GCC diagnostic push|acc wait|omp target enter data map(to: a)|omp|STDC FP_CONTRACT ON",
            ),
        ] {
            for line in lines.split('|') {
                assert_eq!(of_pragma(line), takes, "{line}");
            }
        }
        for (takes, lines) in [
            (Takes::Own, " parallel do private(i)| PARALLELDO|do simd| parallel workshare do"),
            (Takes::Block, " parallel &|WORKSHARE| task untied"),
            (Takes::Nothing, " end parallel do|ENDPARALLEL| barrier"),
        ] {
            for line in lines.split('|') {
                assert_eq!(of_omp(line), takes, "{line}");
            }
        }
    }
}
